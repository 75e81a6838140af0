import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { withFaults } from "../../../../test/support/file-faults.ts";
import { spooledSource } from "./source.ts";
import { spoolPieces } from "./spool.ts";

async function* pieces(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  yield Uint8Array.of(1, 2, 3);
}

test("a copy that cannot be made is closed, whichever system call fails", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "tare-spool-")));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const copy = async (): Promise<unknown> => {
    try {
      const source = await spooledSource(await spoolPieces(pieces(), "pipe", { folder }), "pipe");
      await source.close();
      return undefined;
    } catch (error) {
      return error;
    }
  };
  const { calls } = await withFaults(folder, undefined, copy);
  expect(calls).toMatchObject({ open: [], count: 4 }); // open, unlink, write, stat
  for (let at = 1; at <= calls.count; at++) {
    const { result, calls: made } = await withFaults(folder, { at, errno: "EIO" }, copy);
    expect(made, made.failed).toMatchObject({ open: [] });
    expect(result, made.failed).toMatchObject({ name: "SourceError", code: "source/io" });
  }
});
