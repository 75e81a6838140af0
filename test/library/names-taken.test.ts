import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { handleFolder } from "../../src/bytes/handles/outputs.ts";
import { memorySink } from "../../src/bytes/memory.ts";
import { alteredSink, existsError, type Output } from "../../src/bytes/sink.ts";
import { convert, type ExtractResult, extract, merge, quantize, shard } from "../../src/platform/node/index.ts";
import { MemoryDirectory, MemoryHandle } from "../support/library.ts";
import { namesIn, twoFolders } from "../support/library-folders.ts";

const folders = twoFolders();
const { at, bytesOf } = folders;
const THEIRS = new TextEncoder().encode("theirs");
const INDEX = "m.safetensors.index.json";

/** Runs `action` once, as soon as bytes are written: the names were free when the call looked. */
function meanwhile(action: () => void): { readonly onProgress: () => void } {
  let isDone = false;
  return {
    onProgress: () => {
      if (isDone) return;
      isDone = true;
      action();
    },
  };
}

/** A caller's folder, in which the name `taken` is free until the commit. */
function foldersOwn(taken: string) {
  const committed: string[] = [];
  const removed: string[] = [];
  const output: Output = {
    label: "own",
    name: "",
    async create(name) {
      const sink = memorySink(name);
      return alteredSink(sink, {
        async commit() {
          if (name === taken) throw existsError(name);
          await sink.commit();
          committed.push(name);
        },
      });
    },
    remove: async (name) => void removed.push(name),
  };
  return { output, committed, removed };
}

describe("a file that appears in mid-write belongs to another process", () => {
  const calls = {
    convert: (options: object) => convert(at("m.safetensors"), at("new.gguf"), options),
    "convert to a set": (options: object) =>
      convert(at("m.safetensors"), at("new.gguf"), { maxShardSize: "200KB", ...options }),
    quantize: (options: object) => quantize(at("m.safetensors"), at("new.gguf"), { type: "q8_0", ...options }),
    merge: (options: object) => merge(at("m.gguf"), at("new.gguf"), options),
  };

  test.each(Object.entries(calls))("%s fails and leaves it alone", async (_what, call) => {
    const before = namesIn(folders.ours);
    const files = (await call({ dryRun: true })).files.map(({ path }) => path);
    const last = files.at(-1) as string;
    await expect(call(meanwhile(() => writeFileSync(last, THEIRS)))).rejects.toMatchObject({ code: "usage/exists" });
    expect(readFileSync(last, "utf8")).toBe("theirs");
    const left = namesIn(folders.ours).filter((name) => !before.includes(name));
    expect(left.map((name) => at(name))).toEqual([last]);
  });

  test("shard keeps a foreign index, and takes back its own files", async () => {
    mkdirSync(at("new"));
    const { onProgress } = meanwhile(() => writeFileSync(at(`new/${INDEX}`), THEIRS));
    const options = { maxSize: "200KB", onProgress } as const;
    await expect(shard(at("m.safetensors"), `${at("new")}/`, options)).rejects.toMatchObject({ code: "usage/exists" });
    expect(namesIn(at("new"))).toEqual([INDEX]);
    expect(readFileSync(at(`new/${INDEX}`), "utf8")).toBe("theirs");
  });

  test("shard into a folder of handles and into one of the caller's does the same", async () => {
    const picked = new MemoryDirectory();
    const toHandles = meanwhile(() => picked.files.set(INDEX, new MemoryHandle(INDEX, THEIRS)));
    const code = "usage/exists";
    await expect(shard(at("m.safetensors"), picked, { maxSize: "200KB", ...toHandles })).rejects.toMatchObject({
      code,
    });
    expect([...picked.files.keys()]).toEqual([INDEX]);
    expect(picked.files.get(INDEX)?.content).toEqual(THEIRS);

    const own = foldersOwn(INDEX);
    await expect(shard(at("m.safetensors"), own.output, { maxSize: "200KB" })).rejects.toMatchObject({ code });
    expect(own.removed.length).toBeGreaterThan(1);
    expect(own.removed).toEqual(own.committed);
  });

  test("extract of tensors takes back only what it has written", async () => {
    const { files } = (await extract(at("m.gguf"), at("out"), { dryRun: true })) as ExtractResult;
    const last = files.at(-1)?.file as string;
    mkdirSync(at("out"));
    const { onProgress } = meanwhile(() => writeFileSync(at(`out/${last}`), THEIRS));
    await expect(extract(at("m.gguf"), `${at("out")}/`, { onProgress })).rejects.toMatchObject({
      code: "usage/exists",
    });
    expect(namesIn(at("out"))).toEqual([last]);
  });
});

test("an aborted write into a handle leaves what another writer has put there meanwhile", async () => {
  const picked = new MemoryDirectory();
  const sink = await handleFolder(picked, "", { overwrite: "refuse" }).create("a");
  const made = picked.files.get("a") as MemoryHandle;
  made.content = THEIRS;
  await sink.abort();
  expect(picked.files.get("a")?.content).toEqual(THEIRS);
});

test("of two conversions to one name, one file is left, and it is whole", async () => {
  const both = [1, 2].map(() => convert(at("m.safetensors"), at("two.gguf")));
  const ends = await Promise.allSettled(both);
  expect(ends.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  expect(bytesOf("two.gguf")).toEqual(bytesOf("m.gguf"));
});

test("a failed set takes back its new files, and keeps those that it has replaced", async () => {
  const second = "m-00002-of-00018.safetensors";
  const picked = new MemoryDirectory();
  picked.files.set(second, new MemoryHandle(second, THEIRS));
  const index = new MemoryHandle(INDEX, THEIRS);
  index.createWritable = async () =>
    new WritableStream({
      close: () => {
        throw new DOMException("no room", "QuotaExceededError");
      },
    });
  picked.files.set(INDEX, index);
  await expect(shard(at("m.safetensors"), picked, { maxSize: "200KB", force: true })).rejects.toMatchObject({
    code: "source/no-space",
  });
  expect([...picked.files.keys()]).toEqual([second, INDEX]);
  expect(picked.files.get(second)?.content).not.toEqual(THEIRS);
});
