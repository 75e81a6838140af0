import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { xorshiftBytes } from "../../../../test/vectors/xorshift.ts";
import { equalBytes } from "../../../base/bytes.ts";
import { memorySink, memorySource } from "../../../bytes/memory.ts";
import { readSidecar } from "../../../formats/aerocorrect/read.ts";
import { parityGrid } from "../../../model/parity/avec.ts";
import type { GroupHealer } from "../../../operations/correct/heal.ts";
import { generateSidecar, planFileRepair } from "../../../operations/correct.ts";
import { repairInPlace } from "../files/repair.ts";
import { openFile } from "../files/source.ts";
import { groupHealer } from "./correct-runner.ts";
import { nodeEngine } from "./engine.ts";

/** Five windows of a megabyte, each with a group of ten shards. */
const WHOLE = xorshiftBytes(5_000_000, 21n);
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-healer-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

test("worker threads heal groups to the same bytes as this thread", async () => {
  const engine = await nodeEngine({ workers: 2, callingThread: "computes" });
  const path = join(folder, "file");
  const sink = memorySink("sidecar");
  await generateSidecar(memorySource(WHOLE), sink, { engine, grid: parityGrid(20), windowBytes: 1_000_000 });
  await sink.commit();
  writeFileSync(`${path}.aerocorrect`, sink.published as Uint8Array);
  const hurt = WHOLE.slice();
  for (const at of [0, 150_000, 1_999_999, 2_500_000, 4_999_999]) hurt[at] = (hurt[at] as number) ^ 0xff;
  writeFileSync(path, hurt);
  const [file, beside] = [await openFile(path), await openFile(`${path}.aerocorrect`)];
  const healer = groupHealer(file, beside, { engine }) as GroupHealer;
  expect(healer.isReady).toBe(false);
  engine.expect?.(1 << 30);
  while (!healer.isReady) await sleep(20);
  let healedElsewhere = 0;
  const counting: GroupHealer = {
    isReady: true,
    turn: () => healer.turn(),
    async heal(place, memory) {
      const healed = await healer.heal(place, memory);
      // The memory moves to the thread and comes back.
      expect(memory.byteLength).toBe(0);
      healedElsewhere += healed === undefined ? 0 : 1;
      return healed;
    },
  };
  const sidecar = await readSidecar(beside, engine);
  const plan = await planFileRepair(file, sidecar, { engine, healer: counting });
  expect(healedElsewhere).toBeGreaterThanOrEqual(3);
  expect(plan).toMatchObject({ state: "damaged", recoveredShards: 5, health: { damagedDataShards: 5 } });
  const alone = await planFileRepair(memorySource(hurt), sidecar, { engine });
  expect({ health: plan.health, shards: plan.recoveredShards }).toEqual({
    health: alone.health,
    shards: alone.recoveredShards,
  });
  await repairInPlace(path, file, plan);
  expect(equalBytes(new Uint8Array(readFileSync(path)), WHOLE)).toBe(true);
  expect(createHash("sha256").update(readFileSync(path)).digest()).toEqual(Buffer.from(sidecar.contentSha256));
  await file.close();
  await beside.close();
  await engine.close();
});

test("a file that was cut short is healed if its length is known", async () => {
  const engine = await nodeEngine({ workers: 2, callingThread: "computes" });
  const path = join(folder, "short");
  writeFileSync(path, WHOLE.subarray(0, 4_950_000));
  const [file, beside] = [await openFile(path), await openFile(join(folder, "file.aerocorrect"))];
  engine.expect?.(1 << 30);
  const plan = await planFileRepair(file, await readSidecar(beside, engine), {
    engine,
    healer: groupHealer(file, beside, { engine }),
  });
  expect(plan.state).toBe("damaged");
  await repairInPlace(path, file, plan);
  expect(equalBytes(new Uint8Array(readFileSync(path)), WHOLE)).toBe(true);
  await file.close();
  await beside.close();
  await engine.close();
});
