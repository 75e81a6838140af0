import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, ftruncateSync, openSync, readdirSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { rawSafetensors } from "../builders/safetensors.ts";
import { scratch, TARE } from "./run-tare.ts";

/** Mostly a hole: takes no room on disk, and long enough to copy. */
const DATA_BYTES = 4 * 2 ** 30;

function writeSparseModel(path: string): void {
  const entry = { dtype: "U8", shape: [DATA_BYTES], data_offsets: [0, DATA_BYTES] };
  const head = rawSafetensors(JSON.stringify({ w: entry }));
  const descriptor = openSync(path, "w");
  writeSync(descriptor, head);
  ftruncateSync(descriptor, head.byteLength + DATA_BYTES);
  closeSync(descriptor);
}

it("Ctrl-C while writing ends with 130 and leaves no half file", async () => {
  const file = scratch();
  writeSparseModel(file("big.safetensors"));
  const child = spawn(process.execPath, [TARE, "cat", file("big.safetensors"), "w", "-o", file("out.bin")], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const partial = (): string | undefined => readdirSync(file(".")).find((name) => name.includes("partial"));
  for (let i = 0; partial() === undefined && i < 2000; i++) await sleep(5);
  expect(partial()).toBeDefined();
  child.kill("SIGINT");
  const [code] = (await once(child, "exit")) as [number | null];
  expect(code).toBe(130);
  expect(readdirSync(file("."))).toEqual(["big.safetensors"]);
});
