import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { findPlans, type ReadableBytes } from "../../model/parity/avec.ts";
import { causeOf } from "../../model/parity/damage.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import type { Engine } from "../../primitives/engine.ts";

/** Bytes in memory, as parity reads them. */
export function inMemory(bytes: Bytes): ReadableBytes {
  return {
    byteLength: bytes.byteLength,
    read: async (offset, byteLength) => bytes.subarray(offset, offset + byteLength),
  };
}

/**
 * What short bytes can have been by their parity, where that is something else than they are: one answer for each way in
 * which the payload can be laid out, which is one unless its head is damaged. The caller proves which is right.
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
 * Compares a manifest with its parity: the offset of the first shard that is not what was protected, "agrees" where all
 * are, "unknown" where the payload is damaged or is not one for so many bytes.
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
  // Where parity gives these very bytes, it is the checksum that is damaged.
  const { unrecoverableGroups } = reader.health;
  if (unrecoverableGroups === 0 && equalBytes(await reader.read(0, bytes.byteLength), bytes)) return "agrees";
  return (damaged.group * plan.grid.dataShards + (causeOf(damaged).data[0] ?? 0)) * plan.shardBytes;
}
