import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { CutDigest, HashExtent, Hasher, Subtrees } from "../engine.ts";
import {
  BLAKE3_CHUNK_BYTES,
  BLAKE3_CV_BYTES,
  BLAKE3_FLAGS,
  type Blake3Core,
  type Blake3Domain,
  Blake3Hasher,
  plainDomain,
} from "./blake3.ts";
import type { DigestImplementation } from "./implementation.ts";

/**
 * BLAKE3 of an input that is cut into subtrees. A chunk's chaining value depends on its number and on nothing before it, and a
 * subtree is hashed as an input of its own would be, but for those numbers and the flag of the root (BLAKE3 paper §2.4).
 */
export function cutBlake3(core: Blake3Core): CutDigest {
  const domain = plainDomain();
  return {
    subtree: (at) => new Blake3Hasher(coreWithin(core, at / BLAKE3_CHUNK_BYTES), domain),
    join: (values) => joinValues(core, domain, values, BLAKE3_FLAGS.root),
  };
}

/** Hashers of extents, the first of which are subtrees. */
export function cutHashers(
  implementation: DigestImplementation & { readonly tree?: Blake3Core },
  extents: readonly HashExtent[],
  { count, at }: Subtrees,
): (index: number) => Hasher {
  const { tree } = implementation;
  if (tree === undefined) {
    const message = "Cannot hash a subtree: this implementation takes an input from its beginning on";
    throw new UsageError("usage/engine.range", message, { source: "engine" });
  }
  const cut = cutBlake3(tree);
  const before = at - (extents[0]?.offset ?? 0);
  return (index) => (index < count ? cut.subtree(before + (extents[index]?.offset ?? 0)) : implementation.create());
}

/** The same core for chunks of which the first is not that of the input, below a node that is not its root. */
function coreWithin(core: Blake3Core, first: number): Blake3Core {
  const inner = (flags: number): number => flags & ~BLAKE3_FLAGS.root;
  return {
    maxChunks: core.maxChunks,
    subtree: (domain, input, counter, out) => core.subtree(domain, input, first + counter, out),
    chunk: (domain, input, counter, flags, out) => core.chunk(domain, input, first + counter, inner(flags), out),
    parent: (domain, pair, flags) => core.parent(domain, pair, inner(flags)),
  };
}

/** The left half has as many subtrees as a power of two can be, and leaves some for the right one. */
function joinValues(core: Blake3Core, domain: Blake3Domain, values: readonly Bytes[], flags: number): Bytes {
  const [only] = values;
  if (only !== undefined && values.length === 1) return only;
  let left = 1;
  while (2 * left < values.length) left *= 2;
  const halves = [values.slice(0, left), values.slice(left)];
  const pair = concatBytes(halves.map((half) => joinValues(core, domain, half, 0)));
  core.parent(domain, { bytes: pair, offset: 0 }, flags);
  return pair.slice(0, BLAKE3_CV_BYTES);
}
