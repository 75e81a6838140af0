import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { findPlans, type ReadableBytes } from "../../../model/parity/avec.ts";
import { causeOf } from "../../../model/parity/damage.ts";
import { ParityReader } from "../../../model/parity/reader.ts";
import type { Engine } from "../../../primitives/engine.ts";

/** Bytes in memory, in the form that parity reads. */
export function inMemory(bytes: Bytes): ReadableBytes {
  return {
    byteLength: bytes.byteLength,
    read: async (offset, byteLength) => bytes.subarray(offset, offset + byteLength),
  };
}

/**
 * What short bytes may have been according to their parity, if that differs from them: one answer for each possible
 * layout of the payload, which is one unless its head is damaged. The caller checks which is right.
 */
export async function* healedVersions(engine: Engine, bytes: Bytes, payload: ReadableBytes): AsyncGenerator<Bytes> {
  for (const { plan } of await findPlans(payload, bytes.byteLength)) {
    const reader = new ParityReader({ engine, plan, data: inMemory(bytes), payload });
    await reader.examine();
    const healed = await reader.read(0, bytes.byteLength);
    if (!equalBytes(healed, bytes)) yield healed;
  }
}

/**
 * Compares a manifest with its parity: the offset of the first shard that differs, "agrees" if none does, "unknown" if
 * the payload is damaged or is for another length.
 */
export async function compareWithParity(
  engine: Engine,
  bytes: Bytes,
  payload: ReadableBytes,
): Promise<number | "agrees" | "unknown"> {
  const [found, another] = await findPlans(payload, bytes.byteLength);
  if (found === undefined || (found.head === "damaged" && another !== undefined)) return "unknown";
  const { plan } = found;
  const reader = new ParityReader({ engine, plan, data: inMemory(bytes), payload });
  await reader.examine();
  const damaged = reader.damage.find((damage) => causeOf(damage).data.length > 0);
  if (damaged === undefined) return "agrees";
  // If parity gives exactly these bytes, the checksum is damaged, not the data.
  const { unrecoverableGroups } = reader.health;
  if (unrecoverableGroups === 0 && equalBytes(await reader.read(0, bytes.byteLength), bytes)) return "agrees";
  return (damaged.group * plan.grid.dataShards + (causeOf(damaged).data[0] ?? 0)) * plan.shardBytes;
}
