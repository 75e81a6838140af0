import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Sealer } from "../files/user-secret.ts";
import { lockPullFolder } from "./lock.ts";

let folder: string;
let sealer: Sealer;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-pull-lock-"));
  sealer = await Sealer.open({ XDG_STATE_HOME: mkdtempSync(join(tmpdir(), "tare-pull-state-")) });
});

afterEach(() => rmSync(folder, { recursive: true }));

const lockText = (): string => readFileSync(join(folder, ".tare-pull.lock"), "utf8");

test("of two pulls in one process, one gets the folder", async () => {
  const results = await Promise.allSettled([lockPullFolder(folder, sealer), lockPullFolder(folder, sealer)]);
  expect(results.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const refused = results.find((one) => one.status === "rejected");
  expect(refused?.reason).toMatchObject({ code: "source/pull.locked" });
  for (const one of results) if (one.status === "fulfilled") await one.value.release();
  expect(readdirSync(folder)).toEqual([]);
});

test("a lock that our own pull of another namespace sealed holds; an unsealed one holds while it is new", async () => {
  const lock = await lockPullFolder(folder, sealer);
  const line = lockText();
  await lock.release();
  const elsewhere = line.replace(/ns=\d+/, "ns=1").replace(/ seal=\S+\n/, "");
  const path = join(folder, ".tare-pull.lock");
  writeFileSync(path, `${elsewhere} seal=${sealer.seal(["pull lock", elsewhere])}\n`);
  await expect(lockPullFolder(folder, sealer)).rejects.toMatchObject({ code: "source/pull.locked" });
  writeFileSync(path, `${elsewhere}\n`);
  await expect(lockPullFolder(folder, sealer)).rejects.toMatchObject({ code: "source/pull.locked" });
  expect(existsSync(path)).toBe(true);
});

test("a lock with this process's line but without its seal does not hold", async () => {
  const lock = await lockPullFolder(folder, sealer);
  const line = lockText();
  await lock.release();
  writeFileSync(join(folder, ".tare-pull.lock"), line.replace(/seal=\S+/, "seal=00"));
  await (await lockPullFolder(folder, sealer)).release();
  expect(readdirSync(folder)).toEqual([]);
});
