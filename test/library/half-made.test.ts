import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Progress } from "../../src/api/options.ts";
import { memoryOutput, memorySource } from "../../src/bytes/memory.ts";
import type { Sink } from "../../src/bytes/sink.ts";
import type { Source } from "../../src/bytes/source.ts";

import { cat, convert, extract, memory, openVault, shard, sign, stamp } from "../../src/platform/node/index.ts";
import { MemoryDirectory, MemoryHandle } from "../support/library.ts";
import { namesIn, twoFolders } from "../support/library-folders.ts";

const NORM = "model.norm.weight";
const folders = twoFolders();
const { at, bytesOf } = folders;

test.each([
  ["cat", () => cat("no.gguf", "x", "y", { rows: [1, 2, 3] as never }), "usage/option-value"],
  ["cat", () => cat("no.gguf", "x", "y", { rows: "a:b" }), "usage/option-value"],
  ["cat", () => cat("no.gguf", "x", "y", { as: "safetensors" as never }), "usage/option-value"],
  ["cat", () => cat("no.gguf", 7 as never, "y"), "usage/option-value"],
  ["cat", () => cat("no.gguf", "x", undefined as never), "usage/output"],
  ["extract", () => extract("no.gguf", "y", { dtype: "i8" as never }), "usage/option-value"],
  ["extract", () => extract("no.gguf", "y", { rows: "1" } as never), "usage/unknown-option"],
  ["stamp", () => stamp("no.gguf", { set: ["a"] as never }), "usage/option-value"],
  ["stamp", () => stamp("no.gguf", { from: "x" } as never), "usage/unknown-option"],
  ["sign", () => sign("no.gguf", { key: 7 as never }), "usage/option-value"],
] as const)("%s() refuses wrong options before anything is opened", async (_what, call, code) => {
  await expect(call()).rejects.toMatchObject({ code });
});

test("a change of a vault by nothing is refused, or writes nothing", async () => {
  const vault = await openVault(at("v.aerovault"));
  const before = bytesOf("v.aerovault");
  for (const nothing of [undefined as never, []]) {
    const refused = { code: "usage/arguments", message: expect.stringMatching(/nothing: must name an entry$/) };
    await expect(vault.add(nothing)).rejects.toMatchObject(refused);
    await expect(vault.mkdir(nothing)).rejects.toMatchObject(refused);
    await expect(vault.remove(nothing)).rejects.toMatchObject(refused);
    await expect(vault.batch((v) => v.add(nothing))).rejects.toMatchObject(refused);
  }
  expect(await vault.add(at("m.gguf"), { exclude: "*" })).toMatchObject({ files: 0, byteLength: null });
  await vault.batch(async (v) => {
    await v.mkdir("in");
    await v.add(at("m.gguf"), { exclude: "*" });
  });
  await vault.close();
  expect(bytesOf("v.aerovault")).toEqual(before);
});

describe("nothing is left half-made", () => {
  const reason = new Error("enough");
  const key = (): Buffer => readFileSync(at("release.key"));
  const contents = (): unknown => namesIn(folders.ours).map((name) => [name, readFileSync(join(folders.ours, name))]);
  const calls = {
    cat: (options: object) => cat(at("m.gguf"), NORM, at("new/x.bin"), options),
    extract: (options: object) => extract(at("m.gguf"), at("new/out"), options),
    "extract of a vault": (options: object) => extract(at("v.aerovault"), memoryOutput(""), options),
    "sign inside": (options: object) => sign(at("m.apr"), { key: key(), ...options }),
    "sign beside": (options: object) => sign(at("m.gguf"), { key: key(), ...options }),
    "sign to": (options: object) => sign(at("m.apr"), { key: key(), output: at("new/s.apr"), ...options }),
    stamp: (options: object) => stamp(at("m.safetensors"), { set: { a: "b" }, rewrite: true, ...options }),
    "stamp to": (options: object) => stamp(at("m.safetensors"), { set: { a: "b" }, output: at("new/s"), ...options }),
  };

  test.each(Object.entries(calls))("%s, aborted before and in the middle", async (_what, call) => {
    const before = contents();
    await expect(call({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const control = new AbortController();
    await expect(call({ signal: control.signal, onProgress: () => control.abort(reason) })).rejects.toBe(reason);
    expect(contents()).toEqual(before);
  });

  test("a job that fails does not say that all is done, also if only its output cannot be completed", async () => {
    const vault = await openVault(at("v.aerovault"));
    const failing = (): Sink => {
      const label = "failing";
      const sink = { label, position: 0, append: async () => undefined, abort: async () => undefined };
      return { ...sink, commit: () => Promise.reject(reason) };
    };
    const jobs: readonly ((options: object) => Promise<unknown>)[] = [
      (options) => cat(at("m.gguf"), NORM, failing(), options),
      (options) => vault.cat("in/m.gguf", failing(), options),
      (options) => sign(at("m.apr"), { key: key(), output: failing(), ...options }),
      (options) => stamp(at("m.safetensors"), { set: { a: "b" }, output: failing(), ...options }),
      (options) => vault.changePassword("another password", { rekey: true, ...options }),
    ];
    for (const job of jobs) {
      const events: Progress[] = [];
      await expect(job({ onProgress: (event: Progress) => void events.push(event) })).rejects.toThrow();
      expect(events.length).toBeGreaterThan(0);
      expect(events.filter(({ done, total }) => done === total)).toEqual([]);
    }
    await vault.close();
  });

  test.each([
    ["beside", "new/x.gguf", {}],
    ["inside", "new/x.apr", {}],
    ["beside shards", "new/x.safetensors", { maxShardSize: "100KB" }],
    ["beside a set that goes on later", "new/x.aeroset.json", { to: "aeroset" }],
  ] as const)(
    "convert, aborted while it signs: an output without its signature is taken away (%s)",
    async (_, to, more) => {
      const before = contents();
      const control = new AbortController();
      const onProgress = ({ label }: { readonly label: string }): void => {
        if (label === "signing") control.abort(reason);
      };
      const options = { sign: key(), signal: control.signal, onProgress, ...more };
      await expect(convert(at("m.gguf"), at(to), options)).rejects.toBe(reason);
      expect(contents()).toEqual(before);
      expect(existsSync(at("new"))).toBe(false);
    },
  );

  test("convert does not replace a signature without force, and says so before it writes", async () => {
    writeFileSync(at("x.gguf.sig"), "older");
    const before = contents();
    const exists = { code: "usage/exists" };
    await expect(convert(at("m.gguf"), at("x.gguf"), { sign: key(), dryRun: true })).rejects.toMatchObject(exists);
    const events: unknown[] = [];
    const onProgress = (event: unknown): void => void events.push(event);
    await expect(convert(at("m.gguf"), at("x.gguf"), { sign: key(), onProgress })).rejects.toMatchObject(exists);
    expect(events).toEqual([]);
    expect(contents()).toEqual(before);
    await convert(at("m.gguf"), at("x.gguf"), { sign: key(), force: true });
    expect(readFileSync(at("x.gguf.sig"), "utf8")).not.toBe("older");
    // A signature inside the file is no reason to ask for one beside it.
    writeFileSync(at("x.apr.sig"), "mine");
    await convert(at("m.gguf"), at("x.apr"), { sign: key() });
    expect(readFileSync(at("x.apr.sig"), "utf8")).toBe("mine");
  });

  test("convert does not replace a signature that appears while it writes, and takes its output away", async () => {
    const onProgress = ({ label }: { readonly label: string }): void => {
      if (label === "writing") writeFileSync(at("x.gguf.sig"), "theirs");
    };
    const call = convert(at("m.gguf"), at("x.gguf"), { sign: key(), onProgress });
    await expect(call).rejects.toMatchObject({ code: "usage/exists" });
    expect(existsSync(at("x.gguf"))).toBe(false);
    expect(readFileSync(at("x.gguf.sig"), "utf8")).toBe("theirs");
  });

  /** The model, read by a program that has enough as soon as a few files are there. */
  function modelUntil(isEnough: () => boolean): { readonly input: Source; readonly signal: AbortSignal } {
    const control = new AbortController();
    const inner = memorySource(bytesOf("m.gguf"), "m.gguf");
    const input: Source = {
      label: inner.label,
      byteLength: inner.byteLength,
      async read(...range) {
        if (isEnough()) control.abort(reason);
        return inner.read(...range);
      },
      stream: (...range) => inner.stream(...range),
      close: () => inner.close(),
    };
    return { input, signal: control.signal };
  }

  test("extract, aborted after some files: they are taken away again, and what was there stays", async () => {
    mkdirSync(at("out"));
    writeFileSync(at("out/mine"), "mine");
    const toDisk = modelUntil(() => namesIn(at("out")).length > 4);
    await expect(extract(toDisk.input, at("out"), { signal: toDisk.signal })).rejects.toBe(reason);
    expect(namesIn(at("out"))).toEqual(["mine"]);

    const picked = new MemoryDirectory();
    picked.files.set("mine", new MemoryHandle("mine"));
    const toHandles = modelUntil(() => picked.files.size > 4);
    await expect(extract(toHandles.input, picked, { signal: toHandles.signal })).rejects.toBe(reason);
    expect([...picked.files.keys()]).toEqual(["mine"]);
  });

  test("extract, aborted over files that it may replace: those that it has replaced stay", async () => {
    await extract(at("m.gguf"), at("out"));
    const before = namesIn(at("out"));
    let reads = 0;
    const again = modelUntil(() => ++reads > 8);
    await expect(extract(again.input, at("out"), { signal: again.signal, force: true })).rejects.toBe(reason);
    expect(namesIn(at("out"))).toEqual(before);
  });

  test("extract of a vault, failing in the middle: files and directories are taken away, and it can be repeated", async () => {
    const picked = new MemoryDirectory();
    await picked.getDirectoryHandle("mine", { create: true });
    let room = 1;
    picked.makeFile = (name) => {
      const handle = new MemoryHandle(name);
      if (--room < 0) handle.capacity = 1;
      return handle;
    };
    await expect(extract(at("v.aerovault"), picked)).rejects.toMatchObject({ code: "source/no-space" });
    expect(picked.paths).toEqual(["mine/"]);
    room = 100;
    await extract(at("v.aerovault"), picked);
    expect(picked.paths).toEqual(["mine/", "in/", "in/m.gguf", "in/release.pub"]);

    await using vault = await openVault(at("v.aerovault"));
    const again = new MemoryDirectory();
    const control = new AbortController();
    again.makeFile = (name) => {
      if (name === "release.pub") control.abort(reason);
      return new MemoryHandle(name);
    };
    await expect(vault.extract(again, { signal: control.signal })).rejects.toBe(reason);
    expect(again.paths).toEqual([]);
  });

  test.each([
    ["a folder that is missing, with those above it", "new-vault/out", []],
    ["a folder that is there", "old-vault", ["mine"]],
  ])("extract of a vault, aborted on disk: %s is as before", async (_, name, before) => {
    if (before.length > 0) mkdirSync(at(`${name}/mine`), { recursive: true });
    const control = new AbortController();
    const options = { signal: control.signal, onProgress: () => control.abort(reason) };
    await expect(extract(at("v.aerovault"), at(name), options)).rejects.toBe(reason);
    if (before.length > 0) expect(readdirSync(at(name))).toEqual(before);
    else expect(existsSync(at("new-vault"))).toBe(false);
  });

  test("a set that does not fit into memory leaves nothing there, and its room is free again", async () => {
    const out = memory({ maxBytes: bytesOf("m.safetensors").byteLength });
    const limit = { code: "limit/memory" };
    // Three files together are longer than one: each has a header.
    await expect(shard(at("m.safetensors"), out, { maxSize: "1MB" })).rejects.toMatchObject(limit);
    expect([...out.files.keys()]).toEqual([]);
    await convert(at("m.safetensors"), out, { to: "safetensors" });

    const extracted = memory({ maxBytes: 1e6 });
    await expect(extract(at("m.gguf"), extracted)).rejects.toMatchObject(limit);
    expect([...extracted.files.keys()]).toEqual([]);
  });

  test("a directory of handles that cannot be written to gets no empty file", async () => {
    const picked = new MemoryDirectory();
    picked.makeFile = (name) => Object.assign(new MemoryHandle(name), { createWritable: undefined });
    await expect(convert(at("m.gguf"), picked, { to: "apr" })).rejects.toMatchObject({ code: "usage/output" });
    await expect(extract(at("v.aerovault"), picked)).rejects.toMatchObject({ code: "usage/output" });
    picked.makeFile = (name) =>
      Object.assign(new MemoryHandle(name), {
        createWritable: async () => {
          throw new DOMException("no", "NoModificationAllowedError");
        },
      });
    await expect(convert(at("m.gguf"), picked, { to: "apr" })).rejects.toMatchObject({ code: "source/forbidden" });
    expect(picked.paths).toEqual([]);
  });

  test("a sink that fails in the middle is aborted, and never committed", async () => {
    const log: string[] = [];
    const sink = (room: number): Sink => ({
      label: "full",
      position: 0,
      append: async (bytes) => {
        if (bytes.byteLength > room) throw new Error("full");
      },
      commit: async () => void log.push("commit"),
      abort: async () => void log.push("abort"),
    });
    await cat(at("m.gguf"), NORM, sink(1e9));
    await expect(cat(at("m.gguf"), NORM, sink(1))).rejects.toThrow("full");
    await expect(extract(at("m.gguf"), sink(1), { glob: NORM })).rejects.toThrow("full");
    await expect(stamp(at("m.gguf"), { set: { a: "b" }, output: sink(1) })).rejects.toThrow("full");
    await expect(sign(at("m.apr"), { key: key(), output: sink(1) })).rejects.toThrow("full");
    expect(log).toEqual(["commit", "abort", "abort", "abort", "abort"]);
  });

  test("a handle without room keeps its old content", async () => {
    const handle = new MemoryHandle("m.safetensors", bytesOf("m.safetensors"));
    handle.capacity = 100;
    await expect(stamp(handle, { set: { a: "b" } })).rejects.toMatchObject({
      code: expect.stringMatching(/^source\//) as string,
    });
    expect(Buffer.from(handle.content).equals(bytesOf("m.safetensors"))).toBe(true);
  });

  test("an output that exists is refused before anything is read, and stays", async () => {
    writeFileSync(at("x.bin"), "mine");
    await expect(cat(at("no.gguf"), NORM, at("x.bin"))).rejects.toMatchObject({ code: "usage/exists" });
    expect(readFileSync(at("x.bin"), "utf8")).toBe("mine");
    await cat(at("m.gguf"), NORM, at("x.bin"), { force: true });
    expect(readFileSync(at("x.bin"), "utf8")).not.toBe("mine");
    await expect(extract(at("m.gguf"), `${at("v.aerovault")}::out`)).rejects.toMatchObject({
      code: "usage/vault.output",
    });
  });
});
