import type { FormatReader } from "../../model/format.ts";
import { ggufFields } from "./fields.ts";
import { ggufModel } from "./gguf-model.ts";
import { GGUF_LIMITS } from "./limits.ts";
import { ggufMembers } from "./members.ts";
import { openGguf } from "./open.ts";
import { describeGguf } from "./origin-facts.ts";
import { ggufSections } from "./sections.ts";
import { decodeGgufValue } from "./values.ts";

/** GGUF, versions 2 and 3: the format of llama.cpp and ggml. */
export const reader: FormatReader = {
  limits: GGUF_LIMITS,
  open: openGguf,
  members: ggufMembers,
  sections: (container) => ggufSections(ggufModel(container)),
  carriesDigests: () => false,
  fields: async (container, range) => ggufFields(ggufModel(container), range),
  describe: (container) => describeGguf(ggufModel(container)),
  decodeValue: decodeGgufValue,
};
