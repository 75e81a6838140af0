import { mkdtempSync, promises, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { dispatch } from "../../dispatch.ts";

describe("an interrupt", () => {
  it("is heard while the names of many files are looked up", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tare-extract-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const model = join(folder, "m.safetensors");
    writeFileSync(model, manyTensors(500));
    const controller = new AbortController();
    const { lstat } = promises;
    let looked = 0;
    const spy = vi.spyOn(promises, "lstat").mockImplementation(((path: string, ...rest: []) => {
      if (/[/\\]t\d+\.bin$/.test(String(path)) && ++looked === 20) controller.abort();
      return lstat(path, ...rest);
    }) as typeof lstat);
    syncBuiltinESMExports();
    onTestFinished(() => {
      spy.mockRestore();
      syncBuiltinESMExports();
    });
    const terminal = { outIsTerminal: false, errIsTerminal: false, columns: 80, writeOut: async () => undefined };
    const code = await dispatch(["extract", model, "-o", join(folder, "out")], {
      env: { XDG_STATE_HOME: folder },
      signal: controller.signal,
      onExit: () => undefined,
      terminal: { ...terminal, writeErr: () => undefined },
    }).catch(() => "aborted");
    expect({ code, looked: looked >= 20 && looked < 60 }).toEqual({ code: "aborted", looked: true });
  });
});

/** A SafeTensors file of this many tensors of one byte, called t0, t1 and so on. */
function manyTensors(count: number): Uint8Array {
  const entries = Array.from({ length: count }, (_, i) => [
    `t${i}`,
    { dtype: "U8", shape: [1], data_offsets: [i, i + 1] },
  ]);
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.byteLength));
  return Buffer.concat([length, header, Buffer.alloc(count)]);
}
