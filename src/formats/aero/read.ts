import type { FormatReader } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/json-number.ts";
import { aeroModel } from "./aero-model.ts";
import { aeroFields } from "./fields.ts";
import { AERO_LIMITS } from "./limits.ts";
import { openAero } from "./open.ts";
import { describeAero } from "./origin-facts.ts";
import { aeroPageDigests } from "./page-digests.ts";
import { aeroSections, hasChunks } from "./sections.ts";

/** AERO v0.1: chunks, a tensor index and shards of weights, each with a digest. */
export const reader: FormatReader = {
  limits: AERO_LIMITS,
  open: (source, context) => openAero(source, context),
  pageDigests: async (container, signal) => aeroPageDigests(aeroModel(container), signal),
  sections: (container) => aeroSections(aeroModel(container)),
  carriesDigests: (container) => hasChunks(aeroModel(container)),
  fields: async (container) => aeroFields(aeroModel(container)),
  describe: (container) => describeAero(aeroModel(container)),
  decodeValue: decodeJsonNumber,
};
