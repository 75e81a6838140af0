import type { FormatReader } from "../../model/format.ts";
import { hasChunks } from "../aero/inspect.ts";
import { aerosetFields } from "./fields.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { aerosetMembers } from "./members.ts";
import { openAeroset } from "./open.ts";
import { describeAeroset } from "./plan-facts.ts";
import { aerosetSections } from "./sections.ts";
import { setModel } from "./set-model.ts";

/** AEROSET v0.1 and v0.2: many AERO files that are one model, by a JSON index. */
export const reader: FormatReader = {
  limits: AEROSET_LIMITS,
  open: openAeroset,
  members: aerosetMembers,
  sections: (container) => aerosetSections(setModel(container)),
  carriesDigests: (container) => hasChunks(setModel(container).content.index),
  fields: async (container, range) => aerosetFields(setModel(container), range),
  describe: (container) => describeAeroset(setModel(container)),
};
