import { UsageError } from "../../base/errors.ts";
import type { Output } from "../../bytes/sink.ts";
import type { Container } from "../../model/container.ts";
import type { Format, ModelContent, WriteContext, WriteOptions, WritePlan } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/json-number.ts";
import type { OriginFacts } from "../../model/origin.ts";
import { AprModel } from "./apr-model.ts";
import { knownApr } from "./known.ts";
import { APR_LIMITS } from "./limits.ts";
import { openApr } from "./open.ts";
import { aprRestamp } from "./restamp.ts";
import { isSealedPlan, planSealed } from "./seal/plan-sealed.ts";
import { aprSigning } from "./seal/signature.ts";
import { writeSealed } from "./seal/write-sealed.ts";
import { aprSections } from "./sections.ts";
import { describeSpec } from "./spec/origin-facts.ts";
import { planSpec } from "./spec/plan.ts";
import { writeSpec } from "./spec/write.ts";
import { WILD_LIMITS } from "./wild/limits.ts";
import { isAprenderPlan, planAprender, writeAprender } from "./wild/plan.ts";

/** APR v2 by its specification, sets by their manifest, and the other layouts under this extension. */
export const apr: Format = {
  ...knownApr,
  limits: { ...APR_LIMITS, ...WILD_LIMITS },
  errors: async () => ({
    ...(await import("./errors.ts")).APR_ERRORS,
    ...(await import("./seal/errors.ts")).APR_SEAL_ERRORS,
    ...(await import("./wild/errors.ts")).WILD_ERRORS,
  }),
  open: openApr,
  members: async (source, context) => (await import("./members.ts")).aprMembers(source, context),
  async *verify(container, context) {
    const { verifyApr } = await import("./verify.ts");
    yield* verifyApr(aprModel(container), context);
  },
  sections: (container) => aprSections(aprModel(container)),
  fields: async (container, range) => (await import("./fields.ts")).aprFields(aprModel(container), range),
  describe: (container) => describeApr(aprModel(container)),
  decodeValue: decodeJsonNumber,
  writeOptions: ["align", "maxShardBytes", "compress", "layout", "encrypt"],
  signing: aprSigning,
  restamp: aprRestamp,
  upgrade: {
    check: async (container, context) => (await import("./upgrade.ts")).checkUpgrade(aprModel(container), context),
    apply: async (container, context) => (await import("./upgrade.ts")).upgradeApr(aprModel(container), context),
  },
  plan: planApr,
  write: writeApr,
};

function writeApr(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  if (isAprenderPlan(plan)) return writeAprender(plan, output, context);
  return isSealedPlan(plan) ? writeSealed(plan, output, context) : writeSpec(plan, output, context);
}

/** The specification's layout, or the one that aprender reads where that was asked for. */
function planApr(content: ModelContent, options: WriteOptions): WritePlan {
  const { layout, encrypt } = options;
  if (layout === undefined || layout === "spec") {
    return encrypt === undefined ? planSpec(content, options) : planSealed(content, options, encrypt);
  }
  if (layout === "aprender" && encrypt !== undefined) {
    const message = "Cannot encrypt APR in the layout of aprender: must be the specification's";
    throw new UsageError("usage/apr.layout", message, { source: "layout" });
  }
  if (layout === "aprender") return planAprender(content, options);
  const message = `Cannot write APR in the layout "${options.layout}": must be "spec" or "aprender"`;
  throw new UsageError("usage/apr.layout", message, { source: "layout" });
}

/** Only the specification's layout is written again; the others leave what a writer of it could use. */
function describeApr(model: AprModel): OriginFacts {
  return model.layout === "spec" || model.layout === "manifest" ? describeSpec(model) : {};
}

function aprModel(container: Container): AprModel {
  if (container instanceof AprModel) return container;
  const message = `Cannot treat a ${container.format} container as APR`;
  throw new UsageError("usage/apr.container", message, { source: container.parts[0]?.label ?? container.format });
}
