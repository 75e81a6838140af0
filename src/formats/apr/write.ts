import { UsageError } from "../../base/errors.ts";
import type { Output } from "../../bytes/sink.ts";
import type { FormatWriter, ModelContent, WriteContext, WriteOptions, WritePlan } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import { apr } from "./index.ts";
import { isAprenderPlan, planAprender, writeAprender } from "./layouts/write.ts";
import { aprModel } from "./model.ts";
import { aprRestamp } from "./restamp.ts";
import { aprSigning } from "./seal/signature.ts";
import { isSealedPlan, planSealed, writeSealed } from "./seal/write.ts";
import { planSpec } from "./spec/plan.ts";
import { writeSpec } from "./spec/write.ts";
import { checkUpgrade, upgradeApr } from "./upgrade.ts";

/** Writes the specification's layout, encrypted or not, and the layout that aprender reads. */
export const writer: FormatWriter = {
  format: apr,
  options: ["align", "maxShardBytes", "compress", "layout", "encrypt"],
  naming: { model: "name", architecture: "model_type" },
  signing: aprSigning,
  decodeValue: decodeJsonNumber,
  restamp: aprRestamp,
  upgrade: {
    check: async (container, context) => checkUpgrade(aprModel(container), context),
    apply: (container, context) => upgradeApr(aprModel(container), context),
  },
  plan: planApr,
  write: writeApr,
};

function writeApr(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  if (isAprenderPlan(plan)) return writeAprender(plan, output, context);
  return isSealedPlan(plan) ? writeSealed(plan, output, context) : writeSpec(plan, output, context);
}

/** Plans the specification's layout, or aprender's on request. */
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
