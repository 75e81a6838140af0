import { startsWith } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format, WritePlan } from "../../model/format.ts";
import { GGUF_ERRORS } from "./errors.ts";
import { GgufModel } from "./gguf-model.ts";
import { MAGIC } from "./layout.ts";
import { GGUF_LIMITS } from "./limits.ts";
import { openGguf } from "./open.ts";
import { describeGguf } from "./origin-facts.ts";
import { type GgufPlan, planGguf, writeGguf } from "./plan.ts";
import { ggufRestamp } from "./restamp.ts";
import { ggufSections } from "./sections.ts";
import { decodeGgufValue } from "./values.ts";
import { verifyGguf } from "./verify.ts";

export { GGUF_ERRORS } from "./errors.ts";
export { GgufModel } from "./gguf-model.ts";
export { GGUF_LIMITS, type GgufLimits } from "./limits.ts";
export { openGguf } from "./open.ts";
export { type GgufPlan, planGguf, writeGguf } from "./plan.ts";

/** GGUF, versions 2 and 3: the format of llama.cpp and ggml. */
export const gguf: Format = {
  id: "gguf",
  name: "GGUF",
  kind: "model",
  extensions: [".gguf"],
  limits: GGUF_LIMITS,
  errors: GGUF_ERRORS,
  sniff: ({ bytes }) => (startsWith(bytes, MAGIC) ? "yes" : "no"),
  open: openGguf,
  verify: (container, context) => verifyGguf(own(container), context),
  sections: (container) => ggufSections(own(container)),
  describe: (container) => describeGguf(own(container)),
  decodeValue: decodeGgufValue,
  writeOptions: ["align", "maxShardBytes"],
  restamp: ggufRestamp,
  plan: planGguf,
  write: (plan, output, context) => writeGguf(ownPlan(plan), output, context),
};

function own(container: Container): GgufModel {
  if (container instanceof GgufModel) return container;
  const message = `Cannot treat a ${container.format} container as GGUF`;
  throw new UsageError("usage/gguf.container", message, { source: container.parts[0]?.label ?? container.format });
}

function ownPlan(plan: WritePlan): GgufPlan {
  if (plan.files.every((file) => "pieces" in file)) return plan as GgufPlan;
  throw new UsageError("usage/gguf.container", "Cannot write GGUF from another format's plan", { source: "plan" });
}
