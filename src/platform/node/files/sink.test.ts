import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { sinkContract } from "../../../../test/contracts/sink-contract.ts";
import { expectBytes, patternBytes } from "../../../../test/contracts/source-contract.ts";
import { withFaults } from "../../../../test/support/file-faults.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { abortAllSinks, fileSink } from "./sink.ts";

let root: string;
let folder: string;
let count = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "tare-file-sink-"));
});
beforeEach(async () => {
  folder = join(root, String(count++));
  await mkdir(folder);
});
afterAll(() => rm(root, { recursive: true }));

async function content(path: string): Promise<Bytes | undefined> {
  const buffer = await readFile(path).catch(() => undefined);
  return buffer === undefined ? undefined : new Uint8Array(buffer);
}

sinkContract("file", { reopen: "any" }, async () => {
  const path = join(folder, "out.bin");
  return {
    sink: await fileSink(path, { overwrite: "refuse" }),
    published: () => content(path),
    leftovers: async () => (await readdir(folder)).filter((name) => name !== "out.bin"),
  };
});

describe("fileSink()", () => {
  test("a commit that fails leaves nothing under a name that was free, whichever call fails", async () => {
    for (let at = 1; ; at++) {
      const path = join(folder, `new-${at}`);
      const sink = await fileSink(path, { overwrite: "refuse" });
      await sink.append(patternBytes(8));
      const { result, calls } = await withFaults(folder, { at, errno: "EIO" }, () =>
        sink.commit().then(
          () => "committed",
          () => "failed",
        ),
      );
      expect((await content(path))?.byteLength, calls.failed).toBe(result === "committed" ? 8 : undefined);
      if (calls.failed === undefined) break;
    }
  });

  test("writes 100 000 small appends in a few calls", async () => {
    const path = join(folder, "many");
    const sink = await fileSink(path, { overwrite: "refuse" });
    const piece = patternBytes(30);
    const { calls } = await withFaults(folder, undefined, async () => {
      for (let i = 0; i < 100_000; i++) await sink.append(piece);
      await sink.commit();
    });
    expect(calls.count).toBeLessThan(20);
    const bytes = (await content(path)) as Bytes;
    expect(bytes.byteLength).toBe(3_000_000);
    expectBytes(bytes.subarray(2_999_970), piece);
    expectBytes(bytes.subarray(1_048_560, 1_048_590), piece.slice());
  });
  test("refuses an existing file, at the start and again at commit", async () => {
    const path = join(folder, "out");
    const sink = await fileSink(path, { overwrite: "refuse" });
    await sink.append(Uint8Array.of(1));
    await writeFile(path, "theirs");
    await expect(sink.commit()).rejects.toMatchObject({ name: "UsageError", code: "usage/exists" });
    await expect(fileSink(path, { overwrite: "refuse" })).rejects.toMatchObject({ code: "usage/exists" });
    expect(await readFile(path, "utf8")).toBe("theirs");
    expect(await readdir(folder)).toEqual(["out"]);
  });
  test("replaces a file only at commit, and keeps its permissions", async () => {
    const path = join(folder, "out");
    await writeFile(path, "old");
    await chmod(path, 0o600);
    const sink = await fileSink(path, { overwrite: "replace" });
    await sink.append(Uint8Array.of(65));
    expect(await readFile(path, "utf8")).toBe("old");
    await sink.commit();
    expect(await readFile(path, "utf8")).toBe("A");
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });
  test("follows a link when replacing, even if its target does not exist yet", async () => {
    const [link, target, dangling] = [join(folder, "link"), join(folder, "target"), join(folder, "dangling")];
    await writeFile(target, "old");
    await symlink("target", link);
    await symlink("later", dangling);
    for (const path of [link, dangling]) {
      const sink = await fileSink(path, { overwrite: "replace" });
      await sink.append(Uint8Array.of(66));
      await sink.commit();
      expect((await lstat(path)).isSymbolicLink()).toBe(true);
    }
    expect(await readFile(target, "utf8")).toBe("B");
    expect(await readFile(join(folder, "later"), "utf8")).toBe("B");
  });
  test("names the problem: folder, device, missing folder", async () => {
    await expect(fileSink(folder, { overwrite: "replace" })).rejects.toMatchObject({ code: "source/is-directory" });
    const missing = fileSink(join(folder, "none", "x"), { overwrite: "refuse" });
    await expect(missing).rejects.toMatchObject({ name: "SourceError", code: "source/not-found" });
  });
  test.skipIf(process.platform === "win32")("never replaces a device", async () => {
    await expect(fileSink("/dev/null", { overwrite: "replace" })).rejects.toMatchObject({ code: "usage/not-a-file" });
  });
  test.skipIf(process.platform !== "linux")("reports a full disk, also through appends that had settled", async () => {
    const { FileWrites } = await import("./sink.ts");
    const { open } = await import("node:fs/promises");
    const full = await open("/dev/full", "w");
    const writes = new FileWrites(full);
    await writes.append(Uint8Array.of(1), 0);
    await expect(writes.finish()).rejects.toMatchObject({ code: "ENOSPC" });
    await expect(writes.append(Uint8Array.of(1), 1)).rejects.toMatchObject({ code: "ENOSPC" });
    await full.close();
  });
  test("writes names near the limit of the file system", async () => {
    const path = join(folder, "n".repeat(250));
    const sink = await fileSink(path, { overwrite: "refuse" });
    await sink.commit();
    expect(await content(path)).toHaveLength(0);
  });
  test("waits for a commit that is already publishing when aborted", async () => {
    const sink = await fileSink(join(folder, "race"), { overwrite: "refuse" });
    await sink.append(Uint8Array.of(1));
    const outcome = await Promise.allSettled([sink.commit(), sink.abort()]);
    expect(outcome[1].status).toBe("fulfilled");
    const expected = outcome[0].status === "fulfilled" ? ["race"] : [];
    expect(await readdir(folder)).toEqual(expected);
  });
});

describe("abortAllSinks()", () => {
  test("removes every unfinished file at once", async () => {
    const sinks = await Promise.all(["a", "b"].map((name) => fileSink(join(folder, name), { overwrite: "refuse" })));
    await Promise.all(sinks.map((sink) => sink.append(patternBytes(300_000))));
    expect(await readdir(folder)).toHaveLength(2);
    abortAllSinks();
    expect(await readdir(folder)).toEqual([]);
    await Promise.all(sinks.map((sink) => sink.abort()));
  });
});
