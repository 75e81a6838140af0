import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format } from "../../model/format.ts";
import { EmbdModel } from "./embd-model.ts";
import { knownEmbd } from "./known.ts";
import { EMBD_LIMITS } from "./limits.ts";
import { openEmbd } from "./open.ts";
import { describeEmbd } from "./origin-facts.ts";
import { planEmbd } from "./plan.ts";
import { prepareEmbd } from "./prepare.ts";
import { embdRestamp } from "./restamp.ts";
import { embdSections } from "./sections.ts";
import { decodeTokens } from "./token-list.ts";

/** EMBD .weights: the specification's layout, and the two others that begin with the same eight bytes. */
export const embd: Format = {
  ...knownEmbd,
  limits: EMBD_LIMITS,
  errors: async () => (await import("./errors.ts")).EMBD_ERRORS,
  open: (source, context) => openEmbd(source, context),
  async *verify(container, context) {
    const { verifyEmbd } = await import("./verify.ts");
    yield* verifyEmbd(embdModel(container), context);
  },
  sections: (container) => embdSections(embdModel(container)),
  fields: async (container, range) => (await import("./fields.ts")).embdFields(embdModel(container), range),
  describe: (container) => describeEmbd(embdModel(container)),
  decodeValue: decodeTokens,
  checksums: "whole file",
  writeOptions: ["align", "int8", "vocabulary"],
  restamp: embdRestamp,
  prepare: prepareEmbd,
  plan: planEmbd,
  write: async (plan, output, context) => (await import("./write.ts")).writeEmbd(plan, output, context),
};

function embdModel(container: Container): EmbdModel {
  if (container instanceof EmbdModel) return container;
  const message = `Cannot treat a ${container.format} container as EMBD`;
  throw new UsageError("usage/embd.container", message, { source: container.parts[0]?.label ?? container.format });
}
