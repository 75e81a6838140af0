import { describe, expect, test } from "vitest";
import {
  type Folder,
  type FolderOutputOptions,
  folderOutput,
  folderResolver,
} from "../../../test/builders/folder-output.ts";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError } from "../../base/errors.ts";
import { memorySource } from "../../bytes/memory.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { WriteOptions } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import { Tensor } from "../../model/tensor.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { planAeroset } from "./plan.ts";
import { openAeroset } from "./read.ts";
import { decodeJournal, encodeJournal, journalName } from "./resume.ts";
import { writeAeroset } from "./write.ts";

const engine = portableEngine();
const NAME = "model.aeroset.json";
const JOURNAL = journalName(NAME);
const TENSOR_BYTES = 4096;
const COUNT = 6;

const contentOf = (i: number, seed = 0): Bytes => new Uint8Array(TENSOR_BYTES).fill(10 * seed + i + 1);

/** Tensors without identity, like those of a URL: only their content can prove them the same. */
const namelessTensors = (seed = 0): Tensor[] =>
  Array.from({ length: COUNT }, (_, i) => memoryTensor(`t${i}`, "U8", [TENSOR_BYTES], contentOf(i, seed)));

/** Tensors of a file; counts the bytes that are read. */
function fileTensors(identity: string, onRead: (byteLength: number) => void): Tensor[] {
  const whole = new Uint8Array(COUNT * TENSOR_BYTES);
  for (let i = 0; i < COUNT; i++) whole.set(contentOf(i), i * TENSOR_BYTES);
  const inner = memorySource(whole);
  const file = {
    label: "m.bin",
    byteLength: whole.byteLength,
    descriptor: { kind: "file" as const, path: "/m.bin", byteLength: whole.byteLength, identity },
    read: (offset: number, byteLength: number, options?: { into?: Bytes }) => {
      onRead(byteLength);
      return inner.read(offset, byteLength, options);
    },
    stream: (offset: number) => inner.stream(offset),
    close: () => Promise.resolve(),
  };
  return Array.from({ length: COUNT }, (_, i) => {
    const facts = { name: `t${i}`, dtype: "U8" as const, shape: [TENSOR_BYTES], byteLength: TENSOR_BYTES, offset: 0 };
    return new Tensor(facts, { source: () => sliceSource(file, i * TENSOR_BYTES, TENSOR_BYTES) });
  });
}

interface RunOptions extends FolderOutputOptions {
  readonly tensors?: readonly Tensor[];
  readonly write?: Partial<WriteOptions>;
  readonly check?: () => Promise<void>;
}

/** One shard a part: six parts. Returns the number of bytes appended to each file. */
async function run(folder: Folder, options: RunOptions = {}): Promise<ReadonlyMap<string, number>> {
  const { tensors = namelessTensors(), write, check, onAppend, overwrite = "refuse" } = options;
  const content = { metadata: new Metadata(), tensors, chain: [] };
  const plan = planAeroset(content, { name: NAME, maxShardBytes: TENSOR_BYTES, maxPartShards: 1, ...write });
  const appended = new Map<string, number>();
  const output = folderOutput(folder, NAME, {
    overwrite,
    onAppend: (name, byteLength) => {
      onAppend?.(name, byteLength);
      appended.set(name, (appended.get(name) ?? 0) + byteLength);
    },
  });
  await writeAeroset(plan, output, { engine, ...(check === undefined ? {} : { check }) });
  return appended;
}

const diskFull = new Error("disk full");
const failAt = (part: string) => (name: string) => {
  if (name === part) throw diskFull;
};

/** A run that failed while it wrote part-003. */
async function interrupted(options: RunOptions = {}): Promise<Folder> {
  const folder: Folder = new Map();
  await expect(run(folder, { ...options, onAppend: failAt("part-003.aero") })).rejects.toBe(diskFull);
  return folder;
}

async function expectWhole(folder: Folder, seed = 0): Promise<void> {
  const source = memorySource(folder.get(NAME) as Bytes, NAME);
  const set = await openAeroset(source, { engine, limits: {}, resolver: folderResolver(folder, NAME) });
  for (let i = 0; i < COUNT; i++) expect(await set.tensor(`t${i}`).bytes()).toEqual(contentOf(i, seed));
  expect([...folder.keys()].sort()).toEqual([
    "index.aero",
    NAME,
    ...Array.from({ length: COUNT }, (_, i) => `part-00${i}.aero`),
  ]);
}

describe("an interrupted run", () => {
  test("leaves no set, finished parts and a journal", async () => {
    const folder = await interrupted();
    expect([...folder.keys()].sort()).toEqual([JOURNAL, "part-000.aero", "part-001.aero", "part-002.aero"]);
    const journal = JSON.parse(new TextDecoder().decode(folder.get(JOURNAL))) as { files: object[] };
    expect(journal.files.map((entry) => Object.keys(entry))).toEqual(
      Array.from({ length: 3 }, () => ["name", "fingerprint", "sizeBytes", "sha256"]),
    );
  });

  test("is resumed: finished parts are not written again and share the random uuid", async () => {
    const folder = await interrupted();
    const before = new Map(folder);
    const appended = await run(folder);
    expect([...appended.keys()].sort()).toEqual([NAME, "part-003.aero", "part-004.aero", "part-005.aero"]);
    for (const name of ["part-000.aero", "part-001.aero", "part-002.aero"])
      expect(folder.get(name)).toBe(before.get(name));
    await expectWhole(folder);
    const uuids = [...folder].filter(([name]) => name.endsWith(".aero")).map(([, bytes]) => bytes.slice(52, 68).join());
    expect(new Set(uuids).size).toBe(1);
  });

  test("at any append leaves no set, and can be resumed", async () => {
    const counting: Folder = new Map();
    let total = 0;
    await run(counting, { onAppend: () => total++ });
    for (let stop = 0; stop < total; stop++) {
      const folder: Folder = new Map();
      let appends = 0;
      const onAppend = (): void => {
        if (appends++ === stop) throw diskFull;
      };
      await expect(run(folder, { onAppend })).rejects.toBe(diskFull);
      expect(folder.has(NAME)).toBe(false);
      await run(folder);
      await expectWhole(folder);
    }
  });

  test("of a file that is still the same reads nothing of finished parts", async () => {
    const folder = await interrupted({ tensors: fileTensors("1:2:3", () => undefined) });
    let read = 0;
    const tensors = fileTensors("1:2:3", (byteLength) => {
      read += byteLength;
    });
    await run(folder, { tensors });
    expect(read).toBe(3 * TENSOR_BYTES);
    await expectWhole(folder);
  });

  test("of a file that was touched since writes its parts again", async () => {
    const folder = await interrupted({ tensors: fileTensors("1:2:3", () => undefined) });
    const appended = await run(folder, { tensors: fileTensors("1:2:4", () => undefined) });
    expect(appended.has("part-000.aero")).toBe(true);
    await expectWhole(folder);
  });

  test("of content that changed since writes its parts again", async () => {
    const folder = await interrupted();
    const appended = await run(folder, { tensors: namelessTensors(1) });
    expect(appended.size).toBe(COUNT + 1);
    await expectWhole(folder, 1);
  });

  test("with other options leaves nothing of the first cut", async () => {
    const folder = await interrupted();
    await run(folder, { write: { maxPartShards: 3 } });
    expect([...folder.keys()].sort()).toEqual(["index.aero", NAME, "part-000.aero", "part-001.aero"]);
  });

  test("between the index and the JSON is resumed", async () => {
    const folder: Folder = new Map();
    const uuid = new Uint8Array(16);
    await run(folder, { write: { uuid } });
    const whole = new Map(folder);
    folder.delete(NAME);
    const noted = await interrupted({ write: { uuid } });
    const journal = decodeJournal(noted.get(JOURNAL) as Bytes);
    const index = folder.get("index.aero") as Bytes;
    const sha256 = Buffer.from(await engine.digest("sha256", index)).toString("hex");
    const entry = { name: "index.aero", fingerprint: "0".repeat(64), sizeBytes: index.byteLength, sha256 };
    folder.set(JOURNAL, encodeJournal({ uuid: journal?.uuid ?? "", files: [...(journal?.files ?? []), entry] }));
    for (const name of ["part-003.aero", "part-004.aero", "part-005.aero"]) folder.delete(name);
    await run(folder, { write: { uuid } });
    expect(new Map([...folder].sort())).toEqual(new Map([...whole].sort()));
  });

  test("counts finished parts as progress", async () => {
    const folder = await interrupted();
    const content = { metadata: new Metadata(), tensors: namelessTensors(), chain: [] };
    const plan = planAeroset(content, { name: NAME, maxShardBytes: TENSOR_BYTES, maxPartShards: 1 });
    let progress = 0;
    const onProgress = (byteLength: number): void => {
      progress += byteLength;
    };
    await writeAeroset(plan, folderOutput(folder, NAME), { engine, onProgress });
    expect(progress).toBe(COUNT * TENSOR_BYTES);
  });
});

describe("obstacles at the destination", () => {
  test.each([
    ["the JSON of a set", NAME],
    ["a part that nobody here made", "part-004.aero"],
    ["an index that nobody here made", "index.aero"],
  ])("%s is refused before anything is written", async (_what, name) => {
    const folder: Folder = new Map([[name, Uint8Array.of(1)]]);
    const onAppend = (): void => {
      throw new Error("nothing may be appended");
    };
    await expect(run(folder, { onAppend })).rejects.toMatchObject({ code: "usage/exists" });
    expect([...folder.keys()]).toEqual([name]);
  });

  test("a finished part that was damaged since is refused, and kept", async () => {
    const folder = await interrupted();
    const part = (folder.get("part-001.aero") as Bytes).slice();
    part[part.byteLength - 1] = (part.at(-1) as number) ^ 1;
    folder.set("part-001.aero", part);
    await expect(run(folder)).rejects.toMatchObject({ code: "usage/exists" });
    expect(folder.get("part-001.aero")).toBe(part);
  });

  test("an invalid journal is ignored", async () => {
    for (const text of ["", "{", "[]", '{"kind":"tare aeroset resume","version":1,"uuid":"x","files":[]}']) {
      const folder: Folder = new Map([[JOURNAL, new TextEncoder().encode(text)]]);
      await run(folder);
      await expectWhole(folder);
    }
  });
});

describe("replacing a set", () => {
  test("leaves the old one whole until the new one is complete", async () => {
    const folder: Folder = new Map();
    await run(folder);
    const old = new Map(folder);
    const replacing = { overwrite: "replace", tensors: namelessTensors(2) } as const;
    await expect(run(folder, { ...replacing, onAppend: failAt("part-005.aero") })).rejects.toBe(diskFull);
    expect(folder).toEqual(old);
    await run(folder, replacing);
    await expectWhole(folder, 2);
  });

  test("reads the set that it replaces", async () => {
    const folder: Folder = new Map();
    await run(folder);
    const source = memorySource(folder.get(NAME) as Bytes, NAME);
    const set = await openAeroset(source, { engine, limits: {}, resolver: folderResolver(folder, NAME) });
    const tensors = [...set.tensors].reverse();
    await run(folder, { overwrite: "replace", tensors });
    await expectWhole(folder);
  });
});

test("what the check finds damaged is removed; what it could not check is kept", async () => {
  const folder: Folder = new Map();
  const offline = new Error("offline");
  await expect(run(folder, { check: () => Promise.reject(offline) })).rejects.toBe(offline);
  expect(folder.size).toBe(COUNT + 1);
  const damaged = new IntegrityError("integrity/written", "Cannot keep it", { source: "test" });
  await expect(run(folder, { check: () => Promise.reject(damaged) })).rejects.toBe(damaged);
  expect(folder.size).toBe(0);
});
