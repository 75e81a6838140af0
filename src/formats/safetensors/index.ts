import type { Format } from "../../model/format.ts";
import { SAFETENSORS_ERRORS } from "./errors.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { openSafetensors } from "./open.ts";
import { describeSafetensors } from "./origin-facts.ts";
import { planSafetensors } from "./plan.ts";
import { safetensorsRestamp } from "./restamp.ts";
import { safetensorsSections } from "./sections.ts";
import { sniffSafetensors } from "./sniff.ts";
import { verifySafetensors } from "./verify.ts";
import { writeSafetensors } from "./write.ts";

/** SafeTensors: single files, and sets by their index. */
export const safetensors: Format = {
  id: "safetensors",
  name: "SafeTensors",
  kind: "model",
  extensions: [".safetensors", ".safetensors.index.json"],
  limits: SAFETENSORS_LIMITS,
  errors: SAFETENSORS_ERRORS,
  sniff: sniffSafetensors,
  open: openSafetensors,
  verify: verifySafetensors,
  sections: safetensorsSections,
  describe: describeSafetensors,
  writeOptions: ["maxShardBytes"],
  restamp: safetensorsRestamp,
  plan: planSafetensors,
  write: writeSafetensors,
};
