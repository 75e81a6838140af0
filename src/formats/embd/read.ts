import type { FormatReader } from "../../model/format.ts";
import { embdModel } from "./embd-model.ts";
import { embdFields } from "./fields.ts";
import { EMBD_LIMITS } from "./limits.ts";
import { openEmbd } from "./open.ts";
import { describeEmbd } from "./origin-facts.ts";
import { embdSections } from "./sections.ts";
import { decodeTokens } from "./token-list.ts";

/** EMBD .weights: the specification's layout, and the two others that begin with the same eight bytes. */
export const reader: FormatReader = {
  limits: EMBD_LIMITS,
  open: (source, context) => openEmbd(source, context),
  sections: (container) => embdSections(embdModel(container)),
  fields: async (container, range) => embdFields(embdModel(container), range),
  describe: (container) => describeEmbd(embdModel(container)),
  decodeValue: decodeTokens,
  checksums: "whole file",
};
