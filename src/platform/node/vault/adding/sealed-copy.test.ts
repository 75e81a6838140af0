import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, readlinkSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { patternBytes, sourceContract } from "../../../../../test/contracts/source-contract.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import type { OpenedInput } from "../../../../operations/vault/inputs.ts";
import { nativeEngine } from "../../engine/native.ts";
import { keepSealed } from "./sealed-copy.ts";

const engine = await nativeEngine();
const folder = mkdtempSync(join(tmpdir(), "tare-sealed-"));
afterAll(() => rmSync(folder, { recursive: true }));

function keep(bytes: Bytes): Promise<OpenedInput> {
  const pieces = async function* (): AsyncGenerator<Bytes> {
    for (let i = 0; i < bytes.byteLength; i += 70_001) yield bytes.subarray(i, i + 70_001);
  };
  return keepSealed(pieces(), { engine, limits: {}, folder, label: "v::x" });
}

sourceContract("a sealed copy", async (bytes) => {
  const { source } = await keep(bytes);
  return { source };
});

/** The path of the copy, which has no name, through the descriptor that holds it open. */
function copyPath(): string {
  const found = readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(`${folder}/tare-spool-`);
    } catch {
      return false; // the descriptor of this very listing
    }
  });
  return `/proc/self/fd/${found.at(-1)}`;
}

test.runIf(process.platform === "linux")(
  "a sealed copy has no name, holds nothing in clear, and shows changes",
  async () => {
    const bytes = patternBytes(600_000);
    const { source, close } = await keep(bytes);
    try {
      expect(readdirSync(folder)).toEqual([]);
      const path = copyPath();
      const disk = readFileSync(path);
      expect(disk.byteLength).toBe(600_000 + 3 * 16);
      for (let at = 0; at + 32 <= bytes.byteLength; at += 10_000) {
        expect(disk.includes(Buffer.from(bytes.subarray(at, at + 32)))).toBe(false);
      }
      const descriptor = openSync(path, "r+");
      writeSync(descriptor, Buffer.from([(disk[300_000] as number) ^ 1]), 0, 1, 300_000);
      closeSync(descriptor);
      expect((await source.read(0, 1000)).byteLength).toBe(1000);
      await expect(source.read(290_000, 10)).rejects.toMatchObject({ code: "source/changed" });
    } finally {
      await close();
    }
  },
);
