import { UsageError } from "../../base/errors.ts";
import type { FormatWriter, WritePlan } from "../../model/format.ts";
import { gguf } from "./index.ts";
import { type GgufPlan, planGguf, writeGguf } from "./plan.ts";
import { ggufRestamp } from "./restamp.ts";
import { decodeGgufValue } from "./values.ts";

/** Writes version 3, little-endian, or the version and byte order that the file had. */
export const writer: FormatWriter = {
  format: gguf,
  options: ["align", "maxShardBytes"],
  decodeValue: decodeGgufValue,
  restamp: ggufRestamp,
  plan: planGguf,
  write: (plan, output, context) => writeGguf(ownPlan(plan), output, context),
};

function ownPlan(plan: WritePlan): GgufPlan {
  if (plan.files.every((file) => "pieces" in file)) return plan as GgufPlan;
  throw new UsageError("usage/gguf.container", "Cannot write GGUF from another format's plan", { source: "plan" });
}
