import type { Format } from "../../model/format.ts";
import { knownSafetensors } from "./known.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { openSafetensors } from "./open.ts";
import { describeSafetensors } from "./origin-facts.ts";
import { planSafetensors } from "./plan.ts";
import { safetensorsRestamp } from "./restamp.ts";
import { safetensorsSections } from "./sections.ts";

/** SafeTensors: single files, and sets by their index. */
export const safetensors: Format = {
  ...knownSafetensors,
  limits: SAFETENSORS_LIMITS,
  errors: async () => (await import("./errors.ts")).SAFETENSORS_ERRORS,
  open: openSafetensors,
  members: async (source, context) => (await import("./members.ts")).safetensorsMembers(source, context),
  async *verify(container, context) {
    const { verifySafetensors } = await import("./verify.ts");
    yield* verifySafetensors(container, context);
  },
  sections: safetensorsSections,
  carriesDigests: () => false,
  fields: async (container, range) => (await import("./fields.ts")).safetensorsFields(container, range),
  describe: describeSafetensors,
  writeOptions: ["maxShardBytes"],
  restamp: safetensorsRestamp,
  plan: planSafetensors,
  write: async (plan, output, context) => (await import("./write.ts")).writeSafetensors(plan, output, context),
};
