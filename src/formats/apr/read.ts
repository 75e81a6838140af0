import type { FormatReader } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import type { OriginFacts } from "../../model/origin.ts";
import { type AprModel, aprModel } from "./apr-model.ts";
import { aprFields } from "./fields.ts";
import { APR_LIMITS } from "./limits.ts";
import { aprMembers } from "./members.ts";
import { openApr } from "./open.ts";
import { aprSections } from "./sections.ts";
import { describeSpec } from "./spec/origin-facts.ts";
import { WILD_LIMITS } from "./wild/limits.ts";

/** APR v2 by its specification, sets by their manifest, and the other layouts under this extension. */
export const reader: FormatReader = {
  limits: { ...APR_LIMITS, ...WILD_LIMITS },
  open: openApr,
  members: aprMembers,
  sections: (container) => aprSections(aprModel(container)),
  fields: async (container, range) => aprFields(aprModel(container), range),
  describe: (container) => describeApr(aprModel(container)),
  decodeValue: decodeJsonNumber,
};

/** Only the specification's layout is written again; the others leave what a writer of it could use. */
function describeApr(model: AprModel): OriginFacts {
  return model.layout === "spec" || model.layout === "manifest" ? describeSpec(model) : {};
}
