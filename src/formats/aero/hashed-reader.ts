import { type LazyFacts, LazySource } from "../../bytes/derived.ts";
import { runOf, type SliceSource, type WithinSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { TensorReader } from "../../model/tensor.ts";
import type { HashedTensor, HashedTensorReader } from "./hashed-tensor.ts";

/** Reads a tensor that has a digest of its own; what checks it is loaded by the first read, as listing needs none of it. */
export function hashedReader(hashed: HashedTensor): TensorReader {
  let loading: Promise<HashedTensorReader> | undefined;
  const load = (): Promise<HashedTensorReader> => {
    loading ??= loadReader(hashed).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  return {
    source(tensor) {
      const open = async (): Promise<Source> => (await load()).source(tensor);
      const facts = { label: hashed.stored.label, byteLength: tensor.byteLength, open };
      return new HashedTensorSource(facts, () => hashed.paged?.source(tensor));
    },
  };
}

class HashedTensorSource extends LazySource implements WithinSource {
  readonly #paged: () => Source | undefined;

  constructor(facts: LazyFacts, paged: () => Source | undefined) {
    super(facts);
    this.#paged = paged;
  }

  get within(): SliceSource | undefined {
    const paged = this.#paged();
    return paged === undefined ? undefined : runOf(paged);
  }
}

async function loadReader(hashed: HashedTensor): Promise<HashedTensorReader> {
  const { HashedTensorReader } = await import("./hashed-tensor.ts");
  return new HashedTensorReader(hashed);
}
