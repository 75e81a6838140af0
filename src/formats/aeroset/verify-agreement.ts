import { isTareError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import { FOURCC } from "../aero/layout.ts";
import type { AeroModel } from "../aero/model.ts";
import type { GlobalEntry } from "./part-tensors.ts";
import type { PartFile } from "./parts.ts";
import type { SetModel } from "./set-model.ts";

/** Whether an opened part holds what the global index says: names, types, shapes, lengths, digests, shard numbers. */
export function* verifyAgreement(model: SetModel, part: PartFile, numbers: readonly number[]): Generator<Finding> {
  const opened = part.model;
  if (opened === undefined) return;
  yield* verifyShardCount(part, opened);
  const order = new Map(part.entry.shards.map((shard, k) => [shard, k]));
  const oddities = new Oddities(opened);
  for (const number of numbers) {
    const entry = model.content.entries[number] as GlobalEntry;
    try {
      const { ownShard } = model.place(number);
      if (ownShard === undefined) oddities.add("format/aeroset.unindexed-tensor", entry.name);
      else if (ownShard !== entry.shardId && ownShard !== order.get(entry.shardId)) {
        oddities.add("format/aeroset.shard-number", entry.name);
      }
    } catch (error) {
      if (!isTareError(error)) throw error;
      yield { ...findingFromError(error), name: entry.name };
    }
  }
  const listed = new Set(numbers.map((number) => model.content.entries[number]?.name));
  for (const { name } of opened.tensors) if (!listed.has(name)) oddities.add("format/aeroset.unlisted-tensor", name);
  yield* oddities.findings();
}

function* verifyShardCount(part: PartFile, opened: AeroModel): Generator<Finding> {
  const { toc } = opened.content.control;
  const found = toc.chunks.filter((chunk) => chunk.fourcc === FOURCC.weights).length;
  const wanted = part.entry.shards.length;
  if (found === wanted) return;
  const message = `"${printable(part.label)}" must hold the ${wanted} shards that the set lists for it, found ${found}`;
  const at = { source: opened.content.source.label, offset: 0, path: "toc" };
  yield { severity: "error", code: "format/aeroset.shard-count", message, at, name: part.label };
}

const TEXTS = {
  "format/aeroset.unindexed-tensor": "that the set lists and the part's own index does not",
  "format/aeroset.shard-number": "whose shard number in the part is neither the global one nor its place there",
  "format/aeroset.unlisted-tensor": "that the part holds and the set does not list there",
} as const;

/** One line for each kind, however many tensors have it. */
class Oddities {
  readonly #rows = new Map<keyof typeof TEXTS, { count: number; readonly first: string }>();
  readonly #opened: AeroModel;

  constructor(opened: AeroModel) {
    this.#opened = opened;
  }

  add(code: keyof typeof TEXTS, name: string): void {
    const row = this.#rows.get(code);
    if (row === undefined) this.#rows.set(code, { count: 1, first: name });
    else row.count++;
  }

  *findings(): Generator<Finding> {
    const { source, indexChunk } = this.#opened.content;
    for (const [code, { count, first }] of this.#rows) {
      const message = `${count} ${count === 1 ? "tensor" : "tensors"} ${TEXTS[code]}, the first is "${printable(first)}"`;
      const at = { source: source.label, offset: indexChunk?.offset ?? 0, path: "tensors" };
      yield { severity: "warning", code, message, at, name: first };
    }
  }
}
