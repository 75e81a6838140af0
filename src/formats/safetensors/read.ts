import type { FormatReader } from "../../model/format.ts";
import { safetensorsFields } from "./fields.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { safetensorsMembers } from "./members.ts";
import { openSafetensors } from "./open.ts";
import { describeSafetensors } from "./origin-facts.ts";
import { safetensorsSections } from "./sections.ts";

/** SafeTensors: single files, and sets by their index. */
export const reader: FormatReader = {
  limits: SAFETENSORS_LIMITS,
  open: openSafetensors,
  members: safetensorsMembers,
  sections: safetensorsSections,
  carriesDigests: () => false,
  fields: async (container, range) => safetensorsFields(container, range),
  describe: describeSafetensors,
};
