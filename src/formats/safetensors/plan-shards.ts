import { compareByUtf8 } from "./render.ts";
import type { StoredTensor } from "./stored-tensors.ts";

const INDEX_EXTENSION = ".safetensors.index.json";

/** The names of a set: what its shards begin with, and its index. */
export function shardSetNames(name: string): { readonly base: string; readonly index: string } {
  const lower = name.toLowerCase();
  const extension = [INDEX_EXTENSION, ".safetensors"].find((candidate) => lower.endsWith(candidate)) ?? "";
  const base = name.slice(0, name.length - extension.length);
  // A name that is an index already stays as it was typed.
  return { base, index: extension === INDEX_EXTENSION ? name : `${base}${INDEX_EXTENSION}` };
}

/** "model-00001-of-00003.safetensors", as the usual writers name shards. */
export function shardName(base: string, number: number, count: number): string {
  const digits = (value: number): string => String(value).padStart(5, "0");
  return `${base}-${digits(number)}-of-${digits(count)}.safetensors`;
}

/** Fills shards in order; a tensor above the limit has one of its own. There is always at least one shard. */
export function groupShards(tensors: readonly StoredTensor[], maxShardBytes: number): StoredTensor[][] {
  const shards: StoredTensor[][] = [[]];
  let byteLength = 0;
  for (const tensor of tensors) {
    const current = shards.at(-1) as StoredTensor[];
    if (current.length > 0 && byteLength + tensor.byteLength > maxShardBytes) {
      shards.push([tensor]);
      byteLength = tensor.byteLength;
    } else {
      current.push(tensor);
      byteLength += tensor.byteLength;
    }
  }
  return shards;
}

/** What an index says. */
export interface ShardIndexContents {
  /** Bytes of all tensors. */
  readonly totalSize: number;
  /** The text of `tare.origin`, "" for none. */
  readonly origin: string;
  /** Tensor name and file name. */
  readonly weightMap: readonly (readonly [string, string])[];
}

/** The index as the usual writers render it: two spaces, keys sorted. */
export function renderShardIndex({ totalSize, origin, weightMap }: ShardIndexContents): string {
  const metadata = [
    ...(origin === "" ? [] : [`    "tare.origin": ${JSON.stringify(origin)}`]),
    `    "total_size": ${totalSize}`,
  ];
  const members = [...weightMap]
    .sort(([a], [b]) => compareByUtf8(a, b))
    .map(([name, file]) => `    ${JSON.stringify(name)}: ${JSON.stringify(file)}`);
  const map = members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n  }`;
  return `{\n  "metadata": {\n${metadata.join(",\n")}\n  },\n  "weight_map": ${map}\n}\n`;
}
