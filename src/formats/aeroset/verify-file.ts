import { encodeHex } from "../../base/hex.ts";
import { printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { VerifyContext } from "../../model/format.ts";
import type { ParsedSetFile, SetEntry } from "./index-file.ts";
import { labelOf } from "./locate.ts";
import type { SetModel } from "./set-model.ts";

type Locate = ParsedSetFile["locate"];

/** A file of the set and what the JSON says of it. */
export interface StatedFile {
  /** `key` is where the JSON says it. */
  readonly entry: SetEntry & { readonly key: string };
  readonly source: Source;
}

/** A comparison under way. */
export interface FileCheck {
  /** Waits for the hashing, whatever comes of it. */
  settled(): Promise<void>;
  /** What was found; throws what went wrong. */
  findings(): AsyncIterable<Finding>;
}

/** Compares size and, at level full, SHA-256 of a whole file with the JSON. Hashing begins at once. */
export function startFileCheck(model: SetModel, file: StatedFile, context: VerifyContext): FileCheck {
  const { locate } = model.content.file;
  const { entry, source } = file;
  const isRightSize = entry.sizeBytes === undefined || entry.sizeBytes === source.byteLength;
  // A file of the wrong length cannot have the right digest.
  const isHashed = context.level === "full" && entry.sha256 !== undefined && isRightSize;
  const digest = isHashed ? hash(source, context) : undefined;
  digest?.catch(() => undefined); // thrown by findings(); until then it must not count as unhandled
  return {
    async settled() {
      await Promise.allSettled([digest]);
    },
    async *findings() {
      if (!isRightSize) yield wrongSize(file, locate);
      if (digest === undefined) {
        yield* notHashed(file, locate, context);
        return;
      }
      context.count("fileDigests");
      const found = await digest;
      if (found !== entry.sha256) yield wrongDigest(file, locate, found);
    },
  };
}

async function hash(source: Source, { engine, signal }: VerifyContext): Promise<string> {
  const { byteLength } = source;
  return encodeHex(await engine.digestRange("sha256", source, { offset: 0, byteLength, signal }));
}

function* notHashed({ entry, source }: StatedFile, locate: Locate, context: VerifyContext): Generator<Finding> {
  const name = labelOf(entry.path);
  if (context.level !== "full" && context.reach !== "remote") return;
  if (entry.sha256 === undefined) {
    const message = `The set states no SHA-256 for "${printable(name)}": the whole file was not compared with anything`;
    const at = locate(entry.sha256 ?? entry.path, `${entry.key}.sha256`);
    yield { severity: "note", code: "integrity/aeroset.no-sha256", message, at, name };
  } else if (context.reach === "remote") {
    const message = `The SHA-256 and the weights of "${printable(name)}" were not checked: that needs all ${source.byteLength} bytes`;
    const at = locate(entry.sha256 ?? entry.path, `${entry.key}.sha256`);
    yield { severity: "note", code: "integrity/not-checked", message, at, name };
  }
}

function wrongSize({ entry, source }: StatedFile, locate: Locate): Finding {
  const name = labelOf(entry.path);
  return {
    severity: "error",
    code: "integrity/aeroset.size",
    message: `"${printable(name)}" is not the file of the set: size_bytes must be ${entry.sizeBytes}, found ${source.byteLength}`,
    at: locate(entry.path, `${entry.key}.size_bytes`),
    name,
    hint: "Download the file again",
  };
}

export function wrongDigest({ entry, source }: StatedFile, locate: Locate, found: string): Finding {
  const name = labelOf(entry.path);
  return {
    severity: "error",
    code: "integrity/aeroset.sha256",
    message: `"${printable(name)}" is not the file of the set: SHA-256 of its ${source.byteLength} bytes must be ${entry.sha256}, found ${found}`,
    at: locate(entry.sha256 ?? entry.path, `${entry.key}.sha256`),
    name,
    hint: "Download the file again",
  };
}
