import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { memorySink } from "../../src/bytes/index.ts";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { cat as catPortable, stamp as stampPortable } from "../../src/index.ts";
import { cat, extract, inspect, list, openModel, sign, stamp, verify } from "../../src/platform/node/index.ts";
import { expectSame, MemoryDirectory, MemoryHandle } from "../support/library.ts";
import { namesIn, twoFolders } from "../support/library-folders.ts";

const NORM = "model.norm.weight";
const LAYER = "model.layers.0.input_layernorm.weight";
const folders = twoFolders();
const { at, bytesOf } = folders;

describe("each function gives what its command prints, and writes what it writes", () => {
  test.each([
    [
      "cat",
      ["cat", "m.aero", LAYER, "--rows", "1:3", "--as", "npy", "--dtype", "f32", "-o", "x.npy"],
      () => cat("m.aero", LAYER, "x.npy", { rows: [1, 3], as: "npy", dtype: "f32" }),
    ],
    [
      "cat, rows as text",
      ["cat", "m.gguf", NORM, "--rows=-2:", "-o", "x.bin"],
      () => cat("m.gguf", NORM, "x.bin", { rows: "-2:" }),
    ],
    ["cat, into a new folder", ["cat", "m.gguf", NORM, "-o", "./a/x.bin"], () => cat("m.gguf", NORM, "./a/x.bin")],
    ["cat, no such tensor", ["cat", "m.gguf", "no.such", "-o", "x.bin"], () => cat("m.gguf", "no.such", "x.bin")],
    [
      "cat, rows outside",
      ["cat", "m.gguf", NORM, "--rows", "0:999999", "-o", "x.bin"],
      () => cat("m.gguf", NORM, "x.bin", { rows: [0, 999_999] }),
    ],
    [
      "cat, dry",
      ["cat", "m.gguf", NORM, "-o", "x.bin", "--dry-run"],
      () => cat("m.gguf", NORM, "x.bin", { dryRun: true }),
    ],
    [
      "cat, own input",
      ["cat", "m.gguf", NORM, "-o", "m.gguf", "--force"],
      () => cat("m.gguf", NORM, "m.gguf", { force: true }),
    ],
    ["cat, a file that exists", ["cat", "m.gguf", NORM, "-o", "release.pub"], () => cat("m.gguf", NORM, "release.pub")],
    ["cat, a folder", ["cat", "m.gguf", NORM, "-o", "."], () => cat("m.gguf", NORM, ".")],
    [
      "cat, an entry",
      ["cat", "v.aerovault", "in/release.pub", "-o", "p"],
      () => cat("v.aerovault", "in/release.pub", "p"),
    ],
    ["cat, no such entry", ["cat", "v.aerovault", "x", "-o", "p"], () => cat("v.aerovault", "x", "p")],
    [
      "cat, over the vault",
      ["cat", "v.aerovault", "in/m.gguf", "-o", "v.aerovault", "--force"],
      () => cat("v.aerovault", "in/m.gguf", "v.aerovault", { force: true }),
    ],
    [
      "extract",
      ["extract", "m.gguf", "*norm*", NORM, "-o", "out", "--as", "npy", "--dtype", "f16"],
      () => extract("m.gguf", "out", { glob: ["*norm*", NORM], as: "npy", dtype: "f16" }),
    ],
    [
      "extract, SafeTensors",
      ["extract", "m.gguf", NORM, "-o", "out", "--as", "safetensors"],
      () => extract("m.gguf", "out", { glob: NORM, as: "safetensors" }),
    ],
    ["extract, everything", ["extract", "m.aero", "-o", "out/deep"], () => extract("m.aero", "out/deep")],
    ["extract, dry", ["extract", "m.aero", "-o", "out", "--dry-run"], () => extract("m.aero", "out", { dryRun: true })],
    ["extract, no match", ["extract", "m.aero", "x", "-o", "out"], () => extract("m.aero", "out", { glob: "x" })],
    ["extract, a vault", ["extract", "v.aerovault", "-o", "out"], () => extract("v.aerovault", "out")],
    [
      "extract, a part of a vault",
      ["extract", "v.aerovault", "in/*.pub", "-o", "out"],
      () => extract("v.aerovault", "out", { glob: "in/*.pub" }),
    ],
    [
      "extract, a vault, dry",
      ["extract", "v.aerovault", "-o", "out", "--dry-run"],
      () => extract("v.aerovault", "out", { dryRun: true }),
    ],
    [
      "extract, a vault as npy",
      ["extract", "v.aerovault", "-o", "out", "--as", "npy"],
      () => extract("v.aerovault", "out", { as: "npy" }),
    ],
    ["sign, beside", ["sign", "m.gguf", "--key", "release.key"], () => sign("m.gguf", { key: "release.key" })],
    ["sign, inside", ["sign", "m.apr", "--key", "release.key"], () => sign("m.apr", { key: "release.key" })],
    [
      "sign, dry",
      ["sign", "m.apr", "--key", "release.key", "--dry-run"],
      () => sign("m.apr", { key: "release.key", dryRun: true }),
    ],
    [
      "sign, to an output",
      ["sign", "m.apr", "--key", "release.key", "-o", "s.apr"],
      () => sign("m.apr", { key: "release.key", output: "s.apr" }),
    ],
    [
      "sign, over the model",
      ["sign", "m.gguf", "--key", "release.key", "-o", "m.gguf", "--force"],
      () => sign("m.gguf", { key: "release.key", output: "m.gguf", force: true }),
    ],
    ["sign, over the key", ["sign", "m.gguf", "--key", "m.gguf"], () => sign("m.gguf", { key: "m.gguf" })],
    [
      "sign, in a vault",
      ["sign", "v.aerovault::in/m.gguf", "--key", "release.key"],
      () => sign("v.aerovault::in/m.gguf", { key: "release.key" }),
    ],
    [
      "stamp",
      [
        "stamp",
        "m.gguf",
        "--set",
        "general.name=Stamped",
        "--set",
        "answer=42",
        "--set",
        "half=0.5",
        "--set",
        'list=["a","b"]',
        "-o",
        "s.gguf",
      ],
      () =>
        stamp("m.gguf", {
          set: { "general.name": "Stamped", answer: 42, half: 0.5, list: ["a", "b"] },
          output: "s.gguf",
        }),
    ],
    [
      "stamp, in place",
      ["stamp", "m.safetensors", "--set", "format=np", "--unset", "note"],
      () => stamp("m.safetensors", { set: { format: "np" }, unset: "note" }),
    ],
    [
      "stamp, whole",
      ["stamp", "m.safetensors", "--set", "format=np", "--rewrite"],
      () => stamp("m.safetensors", { set: { format: "np" }, rewrite: true }),
    ],
    [
      "stamp, dry",
      ["stamp", "m.safetensors", "--set", "format=np", "--dry-run"],
      () => stamp("m.safetensors", { set: { format: "np" }, dryRun: true }),
    ],
    ["stamp, nothing", ["stamp", "m.gguf"], () => stamp("m.gguf")],
    [
      "stamp, in a vault",
      ["stamp", "v.aerovault::in/m.gguf", "--set", "a=b"],
      () => stamp("v.aerovault::in/m.gguf", { set: { a: "b" } }),
    ],
    ["stamp, a vault", ["stamp", "v.aerovault", "--set", "a=b"], () => stamp("v.aerovault", { set: { a: "b" } })],
  ] as const)("%s", async (_what, args, call) => {
    await expectSame(() => folders.inOurs<unknown>(call), args, folders.theirs);
    expect(namesIn(folders.ours)).toEqual(namesIn(folders.theirs));
    // A vault remembers nothing of reading, and signatures are the same for the same key and file.
    for (const name of namesIn(folders.ours).filter((file) => /\.\w+$/.test(file)))
      expect(readFileSync(join(folders.ours, name)).equals(readFileSync(join(folders.theirs, name)))).toBe(true);
  });
});

describe("every kind of output", () => {
  test("cat() gives the same bytes to all", async () => {
    await cat(at("m.gguf"), NORM, at("x.bin"));
    const wanted = bytesOf("x.bin");
    const pieces: Uint8Array[] = [];
    let closed = false;
    const stream = new WritableStream<Uint8Array>({
      write: (piece) => void pieces.push(piece),
      close() {
        closed = true;
      },
    });
    const handle = new MemoryHandle("picked.bin", new Uint8Array(9));
    const picked = new MemoryDirectory();
    const sink = memorySink();
    const memory = memoryOutput("");
    const input = new Blob([bytesOf("m.gguf")]);
    const written = [];
    for (const output of [stream, handle, picked, sink, memory])
      written.push((await catPortable(input, NORM, output)).output);
    expect(written).toEqual([`${NORM}.bin`, "picked.bin", `${NORM}.bin`, sink.label, `${NORM}.bin`]);
    const found = [
      Buffer.concat(pieces),
      handle.content,
      picked.files.get(`${NORM}.bin`)?.content,
      sink.published,
      memory.files.get(`${NORM}.bin`),
    ];
    for (const bytes of found) expect(Buffer.from(bytes ?? []).equals(wanted)).toBe(true);
    expect([closed, handle.open]).toEqual([true, 0]);
  });

  test("extract() fills folders of any kind, and refuses what holds one file", async () => {
    const glob = "*norm*";
    const { files } = (await extract(at("m.gguf"), at("out"), { glob })) as { files: readonly { file: string }[] };
    expect(files.length).toBeGreaterThan(1);
    const memory = memoryOutput("");
    const picked = new MemoryDirectory();
    for (const output of [memory, picked]) await extract(at("m.gguf"), output, { glob });
    for (const { file } of files) {
      expect(Buffer.from(memory.files.get(file) ?? []).equals(readFileSync(join(at("out"), file)))).toBe(true);
      expect(Buffer.from(picked.files.get(file)?.content ?? []).equals(readFileSync(join(at("out"), file)))).toBe(true);
    }
    await expect(extract(at("m.gguf"), picked, { glob })).rejects.toMatchObject({ code: "usage/exists" });
    await extract(at("m.gguf"), picked, { glob, force: true });
    const handle = new MemoryHandle("x");
    for (const output of [handle, memorySink(), new WritableStream<Uint8Array>()])
      await expect(extract(at("m.gguf"), output, { glob })).rejects.toMatchObject({ code: "usage/output-single" });
    await expect(extract(at("m.gguf"), handle, { glob: NORM })).resolves.toMatchObject({ files: [{ name: NORM }] });
    expect(handle.content.byteLength).toBeGreaterThan(0);
  });

  test("extract() of a vault fills them as well", async () => {
    const memory = memoryOutput("");
    const result = await extract(at("v.aerovault"), memory);
    expect(result).toMatchObject({ files: 2, directories: 1, failed: [], dryRun: false });
    expect(Buffer.from(memory.files.get("in/release.pub") ?? []).equals(bytesOf("release.pub"))).toBe(true);
  });

  test("stamp() and sign() change file handles in place", async () => {
    const model = new MemoryHandle("m.safetensors", bytesOf("m.safetensors"));
    const options = { set: { license: "MIT" } };
    expect(await stampPortable(model, options)).toMatchObject({ path: "m.safetensors", mode: "rewritten" });
    await stamp(at("m.safetensors"), { ...options, rewrite: true });
    expect(Buffer.from(model.content).equals(bytesOf("m.safetensors"))).toBe(true);

    const key = readFileSync(at("release.key"), "utf8");
    const signed = new MemoryHandle("m.apr", bytesOf("m.apr"));
    expect(await sign(signed, { key })).toMatchObject({ path: "m.apr", place: "inside" });
    expect(await verify(signed, { publicKey: at("release.pub") })).toMatchObject({ ok: true, weights: "compared" });
    expect([model.open, signed.open]).toEqual([0, 0]);

    // A picked file has no folder that a signature could be put into.
    await expect(sign(model, { key })).rejects.toMatchObject({ code: "usage/arguments" });
    const signature = memoryOutput("");
    await sign(model, { key, output: signature });
    writeFileSync(at("m.safetensors.sig"), signature.files.get("m.safetensors.sig") ?? "");
    expect(await verify(at("m.safetensors"), { publicKey: at("release.pub") })).toMatchObject({ ok: true });
  });

  test("what cannot be written back needs an output", async () => {
    const key = bytesOf("release.key");
    const model = await openModel(at("m.apr"));
    const blob = new Blob([bytesOf("m.apr")]);
    for (const input of [blob, bytesOf("m.apr"), model]) {
      await expect(stamp(input, { set: { a: "b" } })).rejects.toMatchObject({ code: "usage/arguments" });
      await expect(sign(input, { key })).rejects.toMatchObject({ code: "usage/arguments" });
      const output = memoryOutput("out.apr");
      await stamp(input, { set: { a: "b" }, output });
      const { metadata } = await inspect(output.files.get("out.apr") ?? new Uint8Array(0));
      expect(metadata).toMatchObject({ a: "b" });
    }
    await model.close();
    const before = namesIn(folders.ours);
    await expect(stamp(at("m.apr"), { set: { a: "b" }, output: 7 as never })).rejects.toMatchObject({
      code: "usage/output",
    });
    expect(namesIn(folders.ours)).toEqual(before);
  });
});

test("a private key without its frame is no path, and is not repeated", async () => {
  const secret = readFileSync(at("release.key"), "utf8").split("\n")[1] as string;
  const error = (await sign(at("m.gguf"), { key: secret }).catch((thrown: unknown) => thrown)) as Error;
  expect(error).toMatchObject({ code: "usage/key.pem" });
  expect(JSON.stringify(error)).not.toContain(secret);
});

describe("own inputs stay what they are", () => {
  test("also if they came as an opened model", async () => {
    const model = await openModel(at("m.gguf"));
    const before = bytesOf("m.gguf");
    await expect(cat(model, NORM, at("m.gguf"), { force: true })).rejects.toMatchObject({ code: "usage/own-input" });
    await model.close();
    expect(bytesOf("m.gguf")).toEqual(before);
  });

  test("a signature takes the place of a link of its name, not of what it leads to", async () => {
    writeFileSync(at("precious"), "mine");
    symlinkSync("precious", at("m.gguf.sig"));
    await sign(at("m.gguf"), { key: at("release.key") });
    expect(readFileSync(at("precious"), "utf8")).toBe("mine");
    expect(await verify(at("m.gguf"), { publicKey: at("release.pub") })).toMatchObject({ ok: true });
  });
});

describe("stamp()", () => {
  test("takes plain values, and refuses those that no metadata has", async () => {
    const values = {
      n: 7,
      big: 2n ** 63n,
      text: "8",
      yes: true,
      list: [1, 2, 3],
      floats: new Float32Array([0.5, 1]),
      none: undefined,
    };
    const output = memoryOutput("x.gguf");
    const { changes } = await stamp(at("m.gguf"), { set: values, output });
    const types = new Map(changes.map(({ key, after }) => [key, after?.type]));
    expect(types.get("n")).toBe("u32");
    expect(types.get("big")).toBe("u64");
    expect(types.get("text")).toBe("string");
    expect(types.get("list")).toBe("array of i32");
    expect(types.get("floats")).toBe("array of f32");
    expect(types.has("none")).toBe(false);
    const self: unknown[] = [];
    self.push(self);
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, () => 1, Symbol("x"), new Date(), self, new Map()])
      await expect(stamp(at("m.gguf"), { set: { value }, output })).rejects.toMatchObject({
        code: "usage/option-value",
      });
  });

  test("says that a signature no longer fits, and finishes what a crash left", async () => {
    await sign(at("m.safetensors"), { key: at("release.key") });
    const notes: string[] = [];
    await stamp(at("m.safetensors"), { set: { format: "np" }, onNote: (note) => notes.push(note) });
    expect(notes).toEqual([expect.stringMatching(/m\.safetensors\.sig was made before this edit/)]);
  });

  test("unset, one or many", async () => {
    await stamp(at("m.safetensors"), { set: { a: "1", b: "2", c: "3" } });
    await stamp(at("m.safetensors"), { unset: ["a", "b"] });
    await stamp(at("m.safetensors"), { unset: "c" });
    const { metadata } = await inspect(at("m.safetensors"));
    expect(Object.keys(metadata).filter((key) => "abc".includes(key))).toEqual([]);
  });
});

test("cat() reads and writes inside vaults", async () => {
  const out = memoryOutput("");
  await cat(`${at("v.aerovault")}::in/m.gguf`, NORM, out);
  await cat(at("m.gguf"), NORM, at("x.bin"));
  expect(Buffer.from(out.files.get(`${NORM}.bin`) ?? []).equals(bytesOf("x.bin"))).toBe(true);
  const place = `${at("v.aerovault")}::out/x.bin`;
  expect(await cat(at("m.gguf"), NORM, place, { encryption: false })).toMatchObject({ output: place });
  const { entries = [] } = await list(at("v.aerovault"), { glob: "out/x.bin" });
  expect(entries.map(({ path, size }) => [path, size])).toEqual([["out/x.bin", bytesOf("x.bin").byteLength]]);
});
