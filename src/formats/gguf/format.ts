import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format, WritePlan } from "../../model/format.ts";
import { GgufModel } from "./gguf-model.ts";
import { knownGguf } from "./known.ts";
import { GGUF_LIMITS } from "./limits.ts";
import { openGguf } from "./open.ts";
import { describeGguf } from "./origin-facts.ts";
import { type GgufPlan, planGguf, writeGguf } from "./plan.ts";
import { ggufRestamp } from "./restamp.ts";
import { ggufSections } from "./sections.ts";
import { decodeGgufValue } from "./values.ts";

/** GGUF, versions 2 and 3: the format of llama.cpp and ggml. */
export const gguf: Format = {
  ...knownGguf,
  limits: GGUF_LIMITS,
  errors: async () => (await import("./errors.ts")).GGUF_ERRORS,
  open: openGguf,
  members: async (source, context) => (await import("./members.ts")).ggufMembers(source, context),
  async *verify(container, context) {
    const { verifyGguf } = await import("./verify.ts");
    yield* verifyGguf(own(container), context);
  },
  sections: (container) => ggufSections(own(container)),
  carriesDigests: () => false,
  fields: async (container, range) => (await import("./fields.ts")).ggufFields(own(container), range),
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
