import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format, WritePlan } from "../../model/format.ts";
import { hasChunks } from "../aero/sections.ts";
import { knownAeroset } from "./known.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { openAeroset } from "./open.ts";
import { type AerosetPlan, planAeroset } from "./plan.ts";
import { describeAeroset } from "./plan-facts.ts";
import { aerosetSections } from "./sections.ts";
import { SetModel } from "./set-model.ts";

/** AEROSET v0.1 and v0.2: many AERO files that are one model, by a JSON index. */
export const aeroset: Format = {
  ...knownAeroset,
  limits: AEROSET_LIMITS,
  errors: async () => ({
    ...(await import("./errors.ts")).AEROSET_ERRORS,
    ...(await import("./write-errors.ts")).AEROSET_WRITE_ERRORS,
  }),
  open: openAeroset,
  members: async (source, context) => (await import("./members.ts")).aerosetMembers(source, context),
  async *verify(container, context) {
    const { verifyAeroset } = await import("./verify.ts");
    yield* verifyAeroset(setModel(container), context);
  },
  sections: (container) => aerosetSections(setModel(container)),
  carriesDigests: (container) => hasChunks(setModel(container).content.index),
  fields: async (container, range) => (await import("./fields.ts")).aerosetFields(setModel(container), range),
  describe: (container) => describeAeroset(setModel(container)),
  writeOptions: [
    "align",
    "maxShardBytes",
    "maxPartShards",
    "baseUrl",
    "uuid",
    "pageHashes",
    "tensorHashes",
    "controlHash",
  ],
  plan: planAeroset,
  write: async (plan, output, context) => (await import("./write.ts")).writeAeroset(ownPlan(plan), output, context),
};

function setModel(container: Container): SetModel {
  if (container instanceof SetModel) return container;
  const message = `Cannot treat a ${container.format} container as AEROSET`;
  throw new UsageError("usage/aeroset.container", message, { source: container.parts[0]?.label ?? container.format });
}

function ownPlan(plan: WritePlan): AerosetPlan {
  if ("set" in plan) return plan as AerosetPlan;
  throw new UsageError("usage/aeroset.container", "Cannot write AEROSET from another format's plan", {
    source: "plan",
  });
}
