import { mkdtempSync, promises, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { portableEngine } from "../../primitives/portable.ts";
import { openTarget } from "./open-target.ts";

let folder: string;
const { open } = promises;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-open-"));
});

afterEach(() => {
  Object.assign(promises, { open });
  syncBuiltinESMExports();
  rmSync(folder, { recursive: true });
});

/** A SafeTensors file of one tensor of so many bytes. */
function tensorFile(byteLength: number): Buffer {
  const head = JSON.stringify({ t: { dtype: "U8", shape: [byteLength], data_offsets: [0, byteLength] } });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(head.length));
  return Buffer.concat([length, Buffer.from(head), Buffer.alloc(byteLength)]);
}

/** Writes a longer file in the place of the one that is being opened, once its length is known, so many times. */
function growWhileOpening(path: string, times: number): () => number {
  let opened = 0;
  Object.assign(promises, {
    open: async (...args: Parameters<typeof open>) => {
      const handle = await open(...args);
      if (args[0] !== path) return handle;
      opened++;
      const stat = handle.stat.bind(handle) as (options: { bigint: true }) => Promise<unknown>;
      Object.assign(handle, {
        stat: async (options: { bigint: true }) => {
          const facts = await stat(options);
          if (opened <= times) writeFileSync(path, tensorFile(1000 * (opened + 1)));
          return facts;
        },
      });
      return handle;
    },
  });
  syncBuiltinESMExports();
  return () => opened;
}

test("openTarget() begins again where a file is written to while it is opened", async () => {
  const path = join(folder, "m.safetensors");
  writeFileSync(path, tensorFile(1000));
  const opened = growWhileOpening(path, 2);
  const target = await openTarget(path, { engine: portableEngine() });
  expect([target.container.kind, opened()]).toEqual(["model", 3]);
  await target.close();
});

test("openTarget() gives up on a file that never rests, and at once on one that is damaged", async () => {
  const path = join(folder, "m.safetensors");
  writeFileSync(path, tensorFile(1000));
  const opened = growWhileOpening(path, 100);
  await expect(openTarget(path, { engine: portableEngine() })).rejects.toMatchObject({ name: "FormatError" });
  expect(opened()).toBe(4);
  Object.assign(promises, { open });
  syncBuiltinESMExports();
  const damaged = join(folder, "d.safetensors");
  writeFileSync(damaged, tensorFile(1000).subarray(0, 500));
  const once = growWhileOpening(damaged, 0);
  await expect(openTarget(damaged, { engine: portableEngine() })).rejects.toMatchObject({ name: "FormatError" });
  expect(once()).toBe(1);
});
