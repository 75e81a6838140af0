import type { Model } from "../../src/model/model.ts";

/** Tensors by columns: 100 000 of them cross to the page in a few arrays. */
export interface TensorTable {
  readonly names: readonly string[];
  /** Names of types, and for each tensor an index into them. */
  readonly dtypeNames: readonly string[];
  readonly dtype: Uint16Array;
  /** As shown: "2048 × 128". */
  readonly shapes: readonly string[];
  readonly elementCount: Float64Array;
  readonly byteLength: Float64Array;
  readonly offset: Float64Array;
  /** Index of the file that has the bytes. */
  readonly part: Uint32Array;
  /** Groups by layer, and for each tensor an index into them. */
  readonly groupNames: readonly string[];
  readonly group: Uint32Array;
}

export type SortKey = "file" | "name" | "dtype" | "shape" | "elements" | "size" | "offset";

export function tensorTable({ tensors, parts }: Model): TensorTable {
  const partOf = new Map(parts.map(({ label }, index) => [label, index]));
  const dtypeNames = new Numbered();
  const groupNames = new Numbered();
  return {
    names: tensors.map(({ name }) => name),
    dtype: Uint16Array.from(tensors, ({ dtype }) => dtypeNames.of(dtype)),
    dtypeNames: dtypeNames.texts,
    shapes: tensors.map(({ shape }) => (shape.length === 0 ? "scalar" : shape.join(" × "))),
    elementCount: Float64Array.from(tensors, ({ elementCount }) => elementCount),
    byteLength: Float64Array.from(tensors, ({ byteLength }) => byteLength),
    offset: Float64Array.from(tensors, ({ offset }) => offset),
    part: Uint32Array.from(tensors, ({ file }) => (file === undefined ? 0 : (partOf.get(file) ?? 0))),
    group: Uint32Array.from(tensors, ({ name }) => groupNames.of(layerOf(name))),
    groupNames: groupNames.texts,
  };
}

/** Numbers each different text once. */
class Numbered {
  readonly texts: string[] = [];
  readonly #numbers = new Map<string, number>();

  of(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) {
      number = this.texts.length;
      this.#numbers.set(text, number);
      this.texts.push(text);
    }
    return number;
  }
}

/**
 * "model.layers.11" of "model.layers.11.mlp.up_proj.weight". Tensors outside of layers are grouped by their first word.
 */
export function layerOf(name: string): string {
  const layer = /^(.*?\b(?:layers?|blk|blocks?|h|l)\.\d{1,6})(?:\.|$)/.exec(name);
  if (layer?.[1] !== undefined) return layer[1];
  const numbered = /^(.*?\.\d{1,6})\./.exec(name);
  if (numbered?.[1] !== undefined) return numbered[1];
  const end = name.indexOf(".");
  return end < 0 ? "others" : name.slice(0, end);
}

/** Positions in the requested order, smallest first; "file" is the order of the file's own index. */
export function sortTensors({ tensors }: Model, key: SortKey): Uint32Array {
  const order = Uint32Array.from({ length: tensors.length }, (_, i) => i);
  if (key === "file") return order;
  // Layer 2 before layer 10.
  const collator = new Intl.Collator("en", { numeric: true });
  const compare: Record<Exclude<SortKey, "file">, (a: number, b: number) => number> = {
    name: (a, b) => collator.compare(tensors[a]?.name ?? "", tensors[b]?.name ?? ""),
    dtype: (a, b) => collator.compare(tensors[a]?.dtype ?? "", tensors[b]?.dtype ?? ""),
    shape: (a, b) => (tensors[a]?.shape.length ?? 0) - (tensors[b]?.shape.length ?? 0) || byElements(a, b),
    elements: byElements,
    size: (a, b) => (tensors[a]?.byteLength ?? 0) - (tensors[b]?.byteLength ?? 0),
    offset: (a, b) => (tensors[a]?.offset ?? 0) - (tensors[b]?.offset ?? 0),
  };
  function byElements(a: number, b: number): number {
    return (tensors[a]?.elementCount ?? 0) - (tensors[b]?.elementCount ?? 0);
  }
  return order.sort((a, b) => compare[key](a, b) || a - b);
}
