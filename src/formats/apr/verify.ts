import type { Finding } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { verifyWild } from "./layouts/verify.ts";
import { type AprModel, aprModel } from "./model.ts";
import { verifySealed } from "./seal/verify.ts";
import { isSealed } from "./spec/read.ts";
import type { ManifestDetails } from "./spec/shards.ts";
import { verifyManifest, verifySpec } from "./spec/verify.ts";

/** Findings as they arise, by the rules of the model's own layout. */
function verifyApr(model: AprModel, context: VerifyContext): AsyncIterable<Finding> {
  switch (model.layout) {
    case "spec":
      return isSealed(model) ? verifyBoth(model, context) : verifySpec(model, context);
    case "manifest":
      return verifySet(model, context);
    default:
      return verifyWild(model, context);
  }
}

/** Checks an encrypted file like any other, then checks what only the password opens. */
async function* verifyBoth(model: AprModel, context: VerifyContext): AsyncGenerator<Finding> {
  yield* verifySpec(model, context);
  yield* verifySealed(model, context);
}

async function* verifySet(model: AprModel, context: VerifyContext): AsyncGenerator<Finding> {
  yield* verifyManifest(model, context, verifyApr);
  const { shards } = model.details as ManifestDetails;
  for (const shard of shards) if (isSealed(shard)) yield* verifySealed(shard, context);
}

export const verifier: FormatVerifier = {
  padding: "checked",
  verify: (container, context) => verifyApr(aprModel(container), context),
};
