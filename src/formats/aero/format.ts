import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format, WritePlan } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/json-number.ts";
import { AeroModel } from "./aero-model.ts";
import { knownAero } from "./known.ts";
import { AERO_LIMITS } from "./limits.ts";
import { openAero } from "./open.ts";
import { describeAero } from "./origin-facts.ts";
import { type AeroPlan, planAero } from "./plan.ts";
import { aeroRestamp } from "./restamp.ts";
import { aeroSections, hasChunks } from "./sections.ts";

/** AERO v0.1: chunks, a tensor index and shards of weights, each with a digest. */
export const aero: Format = {
  ...knownAero,
  limits: AERO_LIMITS,
  errors: async () => (await import("./errors.ts")).AERO_ERRORS,
  open: (source, context) => openAero(source, context),
  pageDigests: async (container, signal) =>
    (await import("./page-digests.ts")).aeroPageDigests(aeroModel(container), signal),
  async *verify(container, context) {
    const { verifyAero } = await import("./verify.ts");
    yield* verifyAero(aeroModel(container), context);
  },
  sections: (container) => aeroSections(aeroModel(container)),
  carriesDigests: (container) => hasChunks(aeroModel(container)),
  fields: async (container) => (await import("./fields.ts")).aeroFields(aeroModel(container)),
  describe: (container) => describeAero(aeroModel(container)),
  decodeValue: decodeJsonNumber,
  writeOptions: ["align", "maxShardBytes", "uuid", "pageHashes", "tensorHashes", "controlHash"],
  restamp: aeroRestamp,
  plan: planAero,
  write: async (plan, output, context) => (await import("./write.ts")).writeAero(ownPlan(plan), output, context),
};

function aeroModel(container: Container): AeroModel {
  if (container instanceof AeroModel) return container;
  const message = `Cannot treat a ${container.format} container as AERO`;
  throw new UsageError("usage/aero.container", message, { source: container.parts[0]?.label ?? container.format });
}

function ownPlan(plan: WritePlan): AeroPlan {
  if ("image" in plan) return plan as AeroPlan;
  throw new UsageError("usage/aero.container", "Cannot write AERO from another format's plan", { source: "plan" });
}
