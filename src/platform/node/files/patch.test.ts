import { createHash } from "node:crypto";
import {
  chmodSync,
  mkdtempSync,
  promises,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { patternBytes } from "../../../../test/builders/safetensors.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { type FilePatch, finishPatch, patchFile } from "./patch.ts";

let folder: string;
let path: string;
const OLD = patternBytes(5000);
const NEW = OLD.slice();
const PATCHES: readonly FilePatch[] = [
  { offset: 100, before: OLD.slice(100, 2100), after: patternBytes(2000, 9) },
  { offset: 4990, before: OLD.slice(4990), after: patternBytes(10, 5) },
];
for (const { offset, after } of PATCHES) NEW.set(after, offset);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-patch-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  path = join(folder, "model.bin");
  writeFileSync(path, OLD);
});

const content = (): Bytes => new Uint8Array(readFileSync(path));

/** The journal that is beside the file during a write: a digest, a line end, JSON. */
function journalText(): string {
  const base64 = (bytes: Bytes): string => Buffer.from(bytes).toString("base64");
  const patches = PATCHES.map(({ offset, before, after }) => [offset, base64(before), base64(after)]);
  const text = JSON.stringify({ tareStamp: 1, byteLength: OLD.byteLength, patches });
  return `${createHash("sha256").update(text).digest("hex")}\n${text}`;
}

describe("patchFile()", () => {
  test("writes every patch and leaves no file beside it", async () => {
    await patchFile(path, PATCHES);
    expect(content()).toEqual(NEW);
    expect(readdirSync(folder)).toEqual(["model.bin"]);
    expect(await finishPatch(path)).toBe(false);
  });

  test("makes a journal that is as private as the file", async () => {
    chmodSync(path, 0o600);
    const modes: number[] = [];
    const { unlink } = promises;
    onTestFinished(() => {
      Object.assign(promises, { unlink });
      syncBuiltinESMExports();
    });
    Object.assign(promises, {
      unlink: async (name: string) => {
        if (name.endsWith(".tare-stamp")) modes.push(statSync(name).mode & 0o777);
        return unlink(name);
      },
    });
    syncBuiltinESMExports();
    await patchFile(path, PATCHES);
    expect(modes).toEqual([0o600]);
  });

  test("follows a link, and puts the journal beside the file itself", async () => {
    const link = join(folder, "link");
    symlinkSync("model.bin", link);
    await patchFile(link, PATCHES);
    expect(content()).toEqual(NEW);
  });

  test("touches nothing if the file is not the one that was read", async () => {
    const other = OLD.slice();
    other[4995] = 1 ^ (other[4995] as number);
    writeFileSync(path, other);
    await expect(patchFile(path, PATCHES)).rejects.toMatchObject({ code: "source/stamp.changed" });
    expect(content()).toEqual(other);
    expect(readdirSync(folder)).toEqual(["model.bin"]);
  });

  test("leaves the file to another process that is editing it", async () => {
    writeFileSync(join(folder, ".model.bin.tare-stamp"), journalText());
    await expect(patchFile(path, PATCHES)).rejects.toMatchObject({ code: "source/stamp.locked" });
    expect(content()).toEqual(OLD);
    expect(readFileSync(join(folder, ".model.bin.tare-stamp"), "utf8")).toBe(journalText());
  });

  test("accepts names near the limit of the file system", async () => {
    path = join(folder, "n".repeat(250));
    writeFileSync(path, OLD);
    await patchFile(path, PATCHES);
    expect(content()).toEqual(NEW);
  });
});

describe("finishPatch()", () => {
  test.each([
    ["before the first write", 0, 0],
    ["after some sectors", 1436, 0],
    ["between the patches", 2000, 0],
    ["after the last write", 2000, 10],
  ])("completes an edit that ended %s", async (_, first, second) => {
    const half = OLD.slice();
    half.set((PATCHES[0] as FilePatch).after.subarray(0, first), 100);
    half.set((PATCHES[1] as FilePatch).after.subarray(0, second), 4990);
    writeFileSync(path, half);
    writeFileSync(join(folder, ".model.bin.tare-stamp"), journalText());
    expect(await finishPatch(path)).toBe(true);
    expect(content()).toEqual(NEW);
    expect(readdirSync(folder)).toEqual(["model.bin"]);
  });

  test("leaves alone a file that another program has written to since", async () => {
    const theirs = OLD.slice();
    theirs.fill(0x55, 700, 710);
    writeFileSync(path, theirs);
    writeFileSync(join(folder, ".model.bin.tare-stamp"), journalText());
    await expect(finishPatch(path)).rejects.toMatchObject({ code: "source/stamp.journal" });
    expect(content()).toEqual(theirs);
  });

  test("refuses a journal that is damaged", async () => {
    const text = journalText();
    writeFileSync(join(folder, ".model.bin.tare-stamp"), text.replace('"byteLength":5000', '"byteLength":5001'));
    await expect(finishPatch(path)).rejects.toMatchObject({ code: "source/stamp.journal" });
    expect(content()).toEqual(OLD);
  });

  test("has nothing to do if there is no such file", async () => {
    expect(await finishPatch(join(folder, "none"))).toBe(false);
  });
});
