import type { FormatReader } from "../../model/format.ts";
import { vault2Fields } from "./fields.ts";
import { AEROVAULT2_LIMITS } from "./limits.ts";
import { openAerovault2 } from "./open.ts";
import { vault2Sections } from "./sections.ts";
import { vault2Archive } from "./vault2-archive.ts";

/** AeroVault v2: read, listed, extracted and upgraded; never written. */
export const reader: FormatReader = {
  limits: AEROVAULT2_LIMITS,
  open: openAerovault2,
  sections: (container) => vault2Sections(vault2Archive(container).vault),
  fields: async (container) => vault2Fields(vault2Archive(container).vault),
};
