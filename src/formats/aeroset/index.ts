import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format, WritePlan } from "../../model/format.ts";
import { AEROSET_ERRORS } from "./errors.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { openAeroset } from "./open.ts";
import { type AerosetPlan, planAeroset } from "./plan.ts";
import { describeAeroset } from "./plan-facts.ts";
import { SET_FILE_NAME } from "./plan-names.ts";
import { aerosetSections } from "./sections.ts";
import { SetModel } from "./set-model.ts";
import { sniffAeroset } from "./sniff.ts";
import { verifyAeroset } from "./verify.ts";
import { writeAeroset } from "./write.ts";
import { AEROSET_WRITE_ERRORS } from "./write-errors.ts";

/** AEROSET v0.1 and v0.2: many AERO files that are one model, by a JSON index. */
export const aeroset: Format = {
  id: "aeroset",
  name: "AEROSET",
  kind: "model",
  extensions: [".aeroset.json"],
  folderName: SET_FILE_NAME,
  limits: AEROSET_LIMITS,
  errors: { ...AEROSET_ERRORS, ...AEROSET_WRITE_ERRORS },
  sniff: sniffAeroset,
  open: openAeroset,
  verify: (container, context) => verifyAeroset(setModel(container), context),
  sections: (container) => aerosetSections(setModel(container)),
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
  write: (plan, output, context) => writeAeroset(ownPlan(plan), output, context),
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
