import { isTareError } from "../../../base/errors.ts";
import { type Finding, findingFromError } from "../../../model/finding.ts";
import type { VerifyContext } from "../../../model/format.ts";
import type { AprModel } from "../model.ts";
import { specDetails } from "../model.ts";

/** Errors that concern the file and not one tensor: reported once. */
const ONCE: ReadonlySet<string> = new Set([
  "usage/password.wrong",
  "integrity/apr.front",
  "unsupported/apr.encrypted",
  "format/apr.encryption",
  "limit/apr.kdf",
]);

/**
 * With the password: checks the front matter, and at level "full" every segment. Without: notes that nothing was
 * checked.
 */
export async function* verifySealed(model: AprModel, context: VerifyContext): AsyncGenerator<Finding> {
  if (context.level === "quick") return;
  const { entries } = specDetails(model);
  for (const [i, tensor] of model.tensors.entries()) {
    if (entries[i]?.sealing !== "encrypted" || tensor.byteLength === 0) continue;
    try {
      if (context.level === "control") {
        await tensor.source().read(0, 1, { signal: context.signal });
        return;
      }
      for await (const piece of tensor.stream({ signal: context.signal })) {
        context.count("decryptedBytes", piece.byteLength);
      }
    } catch (error) {
      if (!isTareError(error) || error.code.startsWith("source/")) throw error;
      if (error.code === "usage/password.missing") {
        yield unchecked(model);
        return;
      }
      yield { ...findingFromError(error), ...(ONCE.has(error.code) ? {} : { name: tensor.name }) };
      if (ONCE.has(error.code)) return;
    }
  }
}

function unchecked(model: AprModel): Finding {
  return {
    severity: "note",
    code: "integrity/apr.sealed",
    message: "The tensors are encrypted and were not opened: only the file's CRC was checked",
    at: { source: model.parts[0]?.label ?? "apr" },
    hint: "Pass the option password to check every segment",
  };
}
