import { readFileSync } from "node:fs";
import type { Bytes } from "../../src/base/bytes.ts";
import { SourceError } from "../../src/base/errors.ts";
import { decodeHex } from "../../src/base/text.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import type { Resolver } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";

const FOLDER = new URL("../fixtures/gguf/", import.meta.url);

/** A whole file that gguf-py wrote. */
export function ggufFixture(name: string): Bytes {
  const bytes = decodeHex(readFileSync(new URL(`${name}.hex`, FOLDER), "utf8").replace(/\s/g, ""));
  if (bytes === undefined) throw new Error(`${name}.hex is not hex`);
  return bytes;
}

/** What the writer of a fixture was given. */
export interface ExpectedGguf {
  readonly files: readonly string[];
  readonly metadata: readonly (readonly [key: string, type: string, value: unknown])[];
  readonly tensors: readonly (readonly [name: string, dtype: string, shape: readonly number[], sha256: string])[];
}

export function expectedGguf(name: string): ExpectedGguf {
  return JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), "utf8")) as ExpectedGguf;
}

/** Siblings in memory, by name. */
export function memoryResolver(
  name: string,
  files: ReadonlyMap<string, Bytes>,
): Resolver & { readonly opened: Source[] } {
  const opened: Source[] = [];
  return {
    name,
    opened,
    async resolve(sibling: string): Promise<Source> {
      const bytes = files.get(sibling);
      if (bytes === undefined) throw new SourceError("source/not-found", `No "${sibling}"`, { source: sibling });
      const source = memorySource(bytes, sibling);
      opened.push(source);
      return source;
    },
  };
}
