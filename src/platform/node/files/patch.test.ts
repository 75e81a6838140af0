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
import { type FilePatch, findInterruptedEdit, finishPatch, patchFile, recordPatches } from "./patch.ts";
import { Sealer } from "./user-secret.ts";

let folder: string;
let path: string;
let journal: string;
/** Where the secret of this user is kept, outside of the folder of models. */
let environment: { readonly XDG_STATE_HOME: string };
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
  journal = join(folder, ".model.bin.tare-stamp");
  writeFileSync(path, OLD);
  const state = mkdtempSync(join(tmpdir(), "tare-patch-state-"));
  onTestFinished(() => rmSync(state, { recursive: true }));
  environment = { XDG_STATE_HOME: state };
});

const content = (): Bytes => new Uint8Array(readFileSync(path));

const base64 = (bytes: Bytes): string => Buffer.from(bytes).toString("base64");

/** The text of a journal that anyone can write: JSON after its digest. */
function planted(value: unknown): string {
  const text = JSON.stringify(value);
  return `${createHash("sha256").update(text).digest("hex")}\n${text}`;
}

/** The same with the seal of this user. */
async function sealed(value: unknown): Promise<string> {
  const text = JSON.stringify(value);
  const facts = ["stamp journal", createHash("sha256").update(text).digest("hex")];
  return `${(await Sealer.open(environment)).seal(facts)}\n${text}`;
}

const ROWS = PATCHES.map(({ offset, before, after }) => [offset, base64(before), base64(after)]);
const JOURNAL = { tareStamp: 1, byteLength: OLD.byteLength, patches: ROWS };

describe("patchFile()", () => {
  test("writes every patch and leaves no file beside it", async () => {
    await patchFile(path, PATCHES, environment);
    expect(content()).toEqual(NEW);
    expect(readdirSync(folder)).toEqual(["model.bin"]);
    expect(await finishPatch(path, environment)).toBe(false);
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
    await patchFile(path, PATCHES, environment);
    expect(modes).toEqual([0o600]);
  });

  test("follows a link, and puts the journal beside the file itself", async () => {
    const link = join(folder, "link");
    symlinkSync("model.bin", link);
    await patchFile(link, PATCHES, environment);
    expect(content()).toEqual(NEW);
  });

  test("touches nothing if the file is not the one that was read", async () => {
    const other = OLD.slice();
    other[4995] = 1 ^ (other[4995] as number);
    writeFileSync(path, other);
    await expect(patchFile(path, PATCHES, environment)).rejects.toMatchObject({ code: "source/stamp.changed" });
    expect(content()).toEqual(other);
    expect(readdirSync(folder)).toEqual(["model.bin"]);
  });

  test("leaves the file to another process that is editing it", async () => {
    await recordPatches(path, PATCHES, environment);
    const theirs = readFileSync(journal);
    await expect(patchFile(path, PATCHES, environment)).rejects.toMatchObject({ code: "source/stamp.locked" });
    expect(content()).toEqual(OLD);
    expect(readFileSync(journal)).toEqual(theirs);
  });

  test("accepts names near the limit of the file system", async () => {
    path = join(folder, "n".repeat(250));
    writeFileSync(path, OLD);
    await patchFile(path, PATCHES, environment);
    expect(content()).toEqual(NEW);
  });
});

describe("finishPatch()", () => {
  test.each([
    ["before the first write", 0, 0],
    ["after some sectors", 1436, 0],
    ["between the patches", 2000, 0],
    ["after the last write", 2000, 10],
  ])("completes an edit that ended %s, which readers see completed", async (_, first, second) => {
    await recordPatches(path, PATCHES, environment);
    const half = OLD.slice();
    half.set((PATCHES[0] as FilePatch).after.subarray(0, first), 100);
    half.set((PATCHES[1] as FilePatch).after.subarray(0, second), 4990);
    writeFileSync(path, half);
    expect(await findInterruptedEdit(path, environment)).toEqual({ patches: PATCHES });
    expect(await finishPatch(path, environment)).toBe(true);
    expect(content()).toEqual(NEW);
    expect(readdirSync(folder)).toEqual(["model.bin"]);
  });

  test("leaves alone a file that another program has written to since", async () => {
    await recordPatches(path, PATCHES, environment);
    const theirs = OLD.slice();
    theirs.fill(0x55, 700, 710);
    writeFileSync(path, theirs);
    await expect(finishPatch(path, environment)).rejects.toMatchObject({ code: "source/stamp.journal" });
    expect(content()).toEqual(theirs);
  });

  test("has nothing to do if there is no such file", async () => {
    expect(await finishPatch(join(folder, "none"), environment)).toBe(false);
  });
});

test("a user whose secret cannot be kept gets a copy in the place of the file: a crash leaves the old one or the new one", async () => {
  writeFileSync(path, OLD);
  const before = statSync(path).ino;
  await patchFile(path, PATCHES, { XDG_STATE_HOME: join(path, "no folder") });
  expect(content()).toEqual(NEW);
  expect(statSync(path).ino).not.toBe(before);
  expect(readdirSync(folder).filter((name) => name.includes("tare"))).toEqual([]);
});

describe("a journal that this user did not write", () => {
  const refusesToFinish = async (text: string): Promise<void> => {
    writeFileSync(journal, text);
    await expect(finishPatch(path, environment)).rejects.toMatchObject({
      code: "source/stamp.journal",
      hint: expect.stringContaining(journal),
    });
    expect(await findInterruptedEdit(path, environment)).toEqual({ patches: [], ignored: journal });
    expect(content()).toEqual(OLD);
  };

  test("is finished by no writer, and changes nothing for readers", async () => {
    await refusesToFinish(planted(JOURNAL));
    const secretless = { XDG_STATE_HOME: join(path, "no folder") };
    await expect(finishPatch(path, secretless)).rejects.toMatchObject({ code: "source/stamp.journal" });
    expect(await findInterruptedEdit(path, secretless)).toEqual({ patches: [], ignored: journal });
  });

  test("is that of another user too, and of a user whose secret cannot be kept", async () => {
    const other = mkdtempSync(join(folder, "other-"));
    await recordPatches(path, PATCHES, { XDG_STATE_HOME: other });
    await refusesToFinish(readFileSync(journal, "utf8"));
    rmSync(journal);
    const secretless = { XDG_STATE_HOME: join(path, "no folder") };
    await recordPatches(path, PATCHES, secretless);
    await expect(finishPatch(path, secretless)).rejects.toMatchObject({ code: "source/stamp.journal" });
  });

  test("is ours if a byte of it was changed since", async () => {
    await refusesToFinish((await sealed(JOURNAL)).replace('"byteLength":5000', '"byteLength":5001'));
  });

  test.each([
    ["no object", null],
    ["an object without patches", {}],
    ["a length that is text", { ...JOURNAL, byteLength: "5000" }],
    ["patches that are no list", { ...JOURNAL, patches: {} }],
    ["a patch that is no row", { ...JOURNAL, patches: [null] }],
    ["an offset below zero", { ...JOURNAL, patches: [[-5, "AA==", "AA=="]] }],
    ["an offset that is text", { ...JOURNAL, patches: [["5", "AA==", "AA=="]] }],
    ["an offset beyond the end", { ...JOURNAL, patches: [[5000, "AA==", "AA=="]] }],
    ["an offset that is no safe integer", { ...JOURNAL, patches: [[2 ** 53, "AA==", "AA=="]] }],
    ["text that is no base64", { ...JOURNAL, patches: [[0, "AA==", "!A=="]] }],
    ["bytes of two lengths", { ...JOURNAL, patches: [[0, "AA==", "AAA="]] }],
  ])("or one that has %s ends in no error of the engine", async (_, value) => {
    await refusesToFinish(planted(value));
    await refusesToFinish(await sealed(value));
  });
});
