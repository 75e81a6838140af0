import type { FormatReader } from "../../model/format.ts";
import { vaultFields } from "./fields.ts";
import { AEROVAULT_LIMITS } from "./limits.ts";
import { openAerovault } from "./open.ts";
import { vaultSections } from "./sections.ts";
import { vaultArchive } from "./vault-archive.ts";

/** AeroVault v3: encrypted or plain, deduplicated, compressed; every entry is a Source. */
export const reader: FormatReader = {
  limits: AEROVAULT_LIMITS,
  open: openAerovault,
  sections: (container) => vaultSections(vaultArchive(container).vault),
  fields: async (container, range) => vaultFields(vaultArchive(container).vault, range),
};
