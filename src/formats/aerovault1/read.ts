import type { FormatReader } from "../../model/format.ts";
import { vault1Fields } from "./fields.ts";
import { AEROVAULT1_LIMITS } from "./limits.ts";
import { openAerovault1 } from "./open.ts";
import { vault1Sections } from "./sections.ts";
import { vault1Archive } from "./vault1-archive.ts";

/** AeroVault v1, a ZIP with WinZip's encryption: read, listed, extracted and upgraded; never written. */
export const reader: FormatReader = {
  limits: AEROVAULT1_LIMITS,
  open: openAerovault1,
  sections: (container) => vault1Sections(vault1Archive(container).vault),
  fields: async (container, range) => vault1Fields(vault1Archive(container).vault, range),
};
