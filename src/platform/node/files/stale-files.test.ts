import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { placeMark } from "./partial-files.ts";
import { fileSink } from "./sink.ts";

/** Above the highest process number of Linux. */
const DEAD_PID = 4_194_305;

const RULES = { overwrite: "refuse" } as const;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-stale-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a writer removes only what killed writers of the same file left", async () => {
  const here = placeMark();
  const elsewhere = here === "012345" ? "543210" : "012345";
  const dead = [`.m.aero.tare-partial-${DEAD_PID}-${here}6789ab`, `.m.aero.tare-partial-${DEAD_PID}-${here}543210`];
  const kept = [
    `.m.aero.tare-partial-${process.pid}-${here}6789ab`,
    `.m.aero.tare-partial-${DEAD_PID}-${elsewhere}6789ab`,
    `.m.aero.tare-partial-${DEAD_PID}-not-of-ours`,
    `.other.aero.tare-partial-${DEAD_PID}-${here}6789ab`,
    "m.aero.tare-partial",
  ];
  for (const name of [...dead, ...kept]) writeFileSync(join(folder, name), "x");
  const sink = await fileSink(join(folder, "m.aero"), { overwrite: "refuse" });
  await sink.append(Uint8Array.of(1));
  await sink.commit();
  expect(readdirSync(folder).sort()).toEqual([...kept, "m.aero"].sort());
});

test("names that were cut for the partial file are recognised", async () => {
  const name = `${"n".repeat(240)}.aero`;
  const left = `.${"n".repeat(200)}.tare-partial-${DEAD_PID}-${placeMark()}6789ab`;
  writeFileSync(join(folder, left), "x");
  const sink = await fileSink(join(folder, name), { overwrite: "refuse" });
  await sink.commit();
  expect(readdirSync(folder)).toEqual([name]);
});

test("what is left behind later is found too, a second after the last look", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const write = async (name: string): Promise<void> => (await fileSink(join(folder, name), RULES)).commit();
  await write("m.aero");
  const left = `.n.aero.tare-partial-${DEAD_PID}-${placeMark()}6789ab`;
  writeFileSync(join(folder, left), "x");
  await write("n.aero");
  // One listing serves many outputs of a call.
  expect(readdirSync(folder)).toContain(left);
  rmSync(join(folder, "n.aero"));
  vi.setSystemTime(Date.now() + 1000);
  await write("n.aero");
  expect(readdirSync(folder).sort()).toEqual(["m.aero", "n.aero"]);
});
