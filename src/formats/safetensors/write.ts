import type { Output } from "../../bytes/sink.ts";
import type { FormatWriter, WriteContext, WritePlan } from "../../model/format.ts";
import { writeFiles } from "../../model/pieces.ts";
import { safetensors } from "./index.ts";
import { planSafetensors, type SafetensorsPlan } from "./plan.ts";
import { safetensorsRestamp } from "./restamp.ts";

/** Writes what `planSafetensors` decided; the files appear together, an index last. */
export async function writeSafetensors(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  // The plan is our own: operations hand back what `plan` gave them.
  await writeFiles((plan as SafetensorsPlan).files, output, context);
}

export const writer: FormatWriter = {
  format: safetensors,
  options: ["maxShardBytes"],
  restamp: safetensorsRestamp,
  plan: planSafetensors,
  write: writeSafetensors,
};
