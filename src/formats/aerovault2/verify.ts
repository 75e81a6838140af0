import { isTareError } from "../../base/errors.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { type Vault2Archive, vault2Archive } from "./archive.ts";

/**
 * Checks what opening did not: that every entry is within the vault, and at the level "full" every chunk of it. Yields
 * one finding for each file that cannot be read.
 */
async function* verifyAerovault2(archive: Vault2Archive, context: VerifyContext): AsyncGenerator<Finding> {
  for (const entry of archive.entries) {
    context.count(entry.type === "directory" ? "directories" : "files");
    if (entry.type === "directory") continue;
    try {
      const source = entry.source();
      if (context.level !== "full") continue;
      for await (const piece of source.stream(0, { signal: context.signal })) {
        context.count("bytes", piece.byteLength);
        context.onProgress?.(piece.byteLength);
      }
    } catch (error) {
      if (!isTareError(error)) throw error;
      yield { ...findingFromError(error), name: entry.path };
    }
  }
  const { unusedBytes } = archive.storage;
  if (unusedBytes === 0) return;
  const message = `${unusedBytes} stored bytes belong to no entry`;
  const at = { source: archive.vault.source.label };
  yield { severity: "note", code: "integrity/aerovault2.unreferenced", message, at };
}

export const verifier: FormatVerifier = {
  verify: (container, context) => verifyAerovault2(vault2Archive(container), context),
};
