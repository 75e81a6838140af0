import { VaultArchive, type VaultEntry } from "../src/formats/aerovault/archive.ts";
import { blockExtent } from "../src/formats/aerovault/blocks/check.ts";
import { openSource } from "../src/open.ts";
import { nodeEngine } from "../src/platform/node/engine/engine.ts";
import { openFile } from "../src/platform/node/files/source.ts";
import { countingSource } from "../test/support/counting-source.ts";

/** How many blocks of a vault it takes to read one tensor. */
export interface BlockCount {
  readonly read: number;
  /** Those that hold the tensor's bytes or the model's header. */
  readonly needed: number;
}

/** Opens a vault without a password, opens the model `path` in it, reads one tensor, and counts the blocks read. */
export async function blocksOfTensor(vault: string, path: string, name: string): Promise<BlockCount> {
  const engine = await nodeEngine({ workers: 0 });
  const source = countingSource(await openFile(vault));
  const { container: archive } = await openSource(source, { engine });
  if (!(archive instanceof VaultArchive)) throw new Error("the vault must be one of version 3");
  const entry = archive.entry(path);
  const { container: model } = await openSource(entry.source(), { engine });
  if (model.kind !== "model") throw new Error("the entry must be a model");
  const tensor = model.tensors.find((one) => one.name === name);
  if (tensor === undefined) throw new Error(`the model must have ${name}`);
  await tensor.source().read(0, tensor.byteLength);
  const headerBytes = Math.min(...model.tensors.map(({ offset }) => offset));
  const needed = new Set([
    ...chunksOf(archive, entry, 0, headerBytes),
    ...chunksOf(archive, entry, tensor.offset, tensor.offset + tensor.byteLength),
  ]);
  const records = [...archive.vault.manifest.chunks.values()];
  const read = records.filter((record) => {
    const { offset: start, byteLength: length } = blockExtent(record);
    return source.calls.some(({ offset, byteLength }) => offset < start + length && offset + byteLength > start);
  });
  await archive.close();
  return { read: read.length, needed: needed.size };
}

/** Ids of the chunks that hold the bytes from `start` to `end` of an entry. */
function chunksOf({ vault }: VaultArchive, { record }: VaultEntry, start: number, end: number): string[] {
  const ids: string[] = [];
  let position = -(record.packOffset ?? 0);
  for (const id of record.chunks) {
    const next = position + (vault.manifest.chunks.get(id)?.plaintextLen ?? 0);
    if (position < end && next > start) ids.push(id);
    position = next;
  }
  return ids;
}
