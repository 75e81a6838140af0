import type { Bytes } from "../../src/base/bytes.ts";
import { SourceError } from "../../src/base/errors.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { checkRelativeName, type Resolver } from "../../src/bytes/resolver.ts";

/** A file and, for sets, the files beside it. */
export interface FuzzInput {
  /** The file that is opened. */
  readonly primary: string;
  readonly files: ReadonlyMap<string, Bytes>;
}

/** Resolves siblings as a folder would: bad names are refused, missing files are not found. */
export function inputResolver(input: FuzzInput): Resolver {
  return {
    name: input.primary,
    async resolve(name) {
      checkRelativeName(name, { source: input.primary });
      const bytes = input.files.get(name);
      if (bytes === undefined) throw new SourceError("source/not-found", "Cannot find it", { source: name });
      return memorySource(bytes, name);
    },
  };
}

export function primaryBytes(input: FuzzInput): Bytes {
  return input.files.get(input.primary) ?? new Uint8Array(0);
}
