import type { Bytes } from "../../src/base/bytes.ts";
import { BYTE_MUTATIONS } from "./byte-mutations.ts";
import { mutateEmbd } from "./embd-mutations.ts";
import { type FuzzInput, primaryBytes } from "./fuzz-input.ts";
import { mutateGguf } from "./gguf-mutations.ts";
import { mutateJsonHeader } from "./json-mutations.ts";
import type { Random } from "./random.ts";

/** Mutations that know a structure; which one applies shows in the bytes, so that new formats need no entry here. */
const STRUCTURED: readonly ((bytes: Bytes, random: Random) => Bytes | undefined)[] = [
  mutateGguf,
  mutateEmbd,
  mutateJsonHeader,
];

/** Files above this are cut: repeated duplication must not let inputs grow. */
const MOST_BYTES = 1 << 16;

/** A corpus file, changed one to four times; in a set the change hits any of its files. */
export function mutateInput(corpus: readonly FuzzInput[], random: Random): FuzzInput {
  const { primary, files } = random.pick(corpus);
  const name = random.oneIn(4) ? random.pick([...files.keys()]) : primary;
  let bytes = files.get(name) ?? new Uint8Array(0);
  const rounds = 1 + random.below(random.pick([1, 2, 4]));
  for (let i = 0; i < rounds; i++) bytes = mutateBytes(bytes, random, primaryBytes(random.pick(corpus)));
  return { primary, files: new Map([...files, [name, bytes.slice(0, MOST_BYTES)]]) };
}

function mutateBytes(bytes: Bytes, random: Random, donor: Bytes): Bytes {
  if (!random.oneIn(3)) {
    for (const mutate of STRUCTURED) {
      const changed = mutate(bytes, random);
      if (changed !== undefined) return changed;
    }
  }
  return random.pick(BYTE_MUTATIONS)(bytes, random, donor);
}
