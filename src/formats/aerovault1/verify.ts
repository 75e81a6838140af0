import { isTareError } from "../../base/errors.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { readMeta, type Vault1Archive, vault1Archive } from "./vault.ts";

/**
 * At the level "full" checks every file: HMAC, deflate stream, length, and the CRC if there is one. Yields one finding
 * for each file that cannot be read, and one for what nothing proves.
 */
async function* verifyAerovault1(archive: Vault1Archive, context: VerifyContext): AsyncGenerator<Finding> {
  const { vault, entries } = archive;
  const at = { source: vault.source.label, offset: vault.directory.offset };
  const files = entries.filter(({ type }) => type === "file");
  context.count("files", files.length);
  context.count("directories", entries.length - files.length);
  if (context.level === "full") {
    yield* verifyMeta(archive, files.length, context);
    for (const entry of files) {
      try {
        for await (const piece of entry.source().stream(0, { signal: context.signal })) {
          context.count("bytes", piece.byteLength);
          context.onProgress?.(piece.byteLength);
        }
      } catch (error) {
        // A password that is missing or wrong is not a fault of the file.
        if (!isTareError(error) || error.code.startsWith("usage/")) throw error;
        yield { ...findingFromError(error), name: entry.path };
      }
    }
  }
  const message = "Nothing proves the names, times and number of the files: version 1 protects their contents alone";
  yield { severity: "note", code: "integrity/aerovault1.unproven", message, at };
}

async function* verifyMeta(archive: Vault1Archive, files: number, context: VerifyContext): AsyncGenerator<Finding> {
  const { vault } = archive;
  const at = { source: vault.source.label, offset: vault.meta.localOffset };
  try {
    const { fileCount } = await readMeta(vault, context.signal);
    if (fileCount === undefined || fileCount === files) return;
    const message = `The vault must have ${fileCount} files as its meta entry says, found ${files}`;
    yield { severity: "warning", code: "integrity/aerovault1.count", message, at };
  } catch (error) {
    if (!isTareError(error) || error.code.startsWith("usage/")) throw error;
    yield findingFromError(error);
  }
}

export const verifier: FormatVerifier = {
  verify: (container, context) => verifyAerovault1(vault1Archive(container), context),
};
