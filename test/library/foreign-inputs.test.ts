import { createReadStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memorySource as kitSource } from "../../src/bytes/index.ts";
import type { Source } from "../../src/bytes/source.ts";
import {
  type ConvertOptions,
  convert,
  diff,
  embed,
  inspect,
  memory,
  open,
  sign,
  stamp,
  verify,
} from "../../src/index.ts";
import { createVault, openVault, type Vault } from "../../src/platform/node/vault/library.ts";
import { callTare } from "../cli/run-tare.ts";

/** Inputs that programs bring: their bytes stay theirs, and what they get wrong is said. */

const password = "correct horse battery";
let folder: string;
let key: Buffer;
const at = (name: string): string => join(folder, name);

/** A file of every format, with everything in it that a reader could be tempted to blank out, swap or decrypt in place. */
const FILES: Readonly<Record<string, readonly string[]>> = {
  "m.safetensors": [],
  "m.gguf": [],
  "m.aero": ["--page-hashes", "--control-hash", "--tensor-hashes"],
  "m.apr": [],
  "sealed.apr": ["--encrypt"],
  "packed.apr": ["--compress", "lz4"],
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-foreign-"));
  const env = { XDG_STATE_HOME: at("state"), TARE_PASSWORD: password };
  const ok = async (...args: string[]): Promise<void> => {
    const done = await callTare(args, { cwd: folder, env });
    expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  };
  await ok("demo", "demo");
  await ok("keygen", "-o", "k");
  await ok("vault", "create", "plain.aerovault", "--no-encryption");
  await ok("vault", "add", "plain.aerovault", "k.pub", "k.key", "--no-encryption");
  key = readFileSync(at("k.key"));
  for (const [name, flags] of Object.entries(FILES)) await ok("convert", "demo/demo.safetensors", name, ...flags);
  await ok("convert", "demo/demo.weights", "m.weights");
  const vault = await createVault(at("v.aerovault"), { password, profile: "fast", env });
  await vault.add(at("m.gguf"));
  await vault.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

const NAMES = [...Object.keys(FILES), "m.weights", "v.aerovault"];

/** Gives views of one Buffer, as a program would that read its file into one. */
function bufferSource(bytes: Buffer): Source {
  return {
    label: "theirs",
    byteLength: bytes.byteLength,
    read: async (offset, byteLength, { into } = {}) => {
      const view = bytes.subarray(offset, offset + byteLength) as unknown as Uint8Array<ArrayBuffer>;
      if (into === undefined) return view;
      into.set(view);
      return into;
    },
    async *stream(offset, { byteLength = bytes.byteLength - offset } = {}) {
      for (let done = 0; done < byteLength; done += 1000) {
        const end = Math.min(done + 1000, byteLength);
        yield bytes.subarray(offset + done, offset + end) as unknown as Uint8Array<ArrayBuffer>;
      }
    },
    close: async () => undefined,
  };
}

describe.each(NAMES)("the bytes of %s", (name) => {
  test.each([
    ["a Buffer", (bytes: Buffer) => bytes],
    ["a Source of Buffers", (bytes: Buffer) => bufferSource(bytes)],
    ["memorySource of a Buffer", (bytes: Buffer) => kitSource(bytes)],
  ])("are read as %s, and stay as they are", async (_what, inputOf) => {
    const bytes = readFileSync(at(name));
    const before = Uint8Array.from(bytes);
    const input = inputOf(bytes);
    expect(await verify(input, { password })).toMatchObject({ ok: true });
    expect((await inspect(inputOf(bytes), { password })).byteLength).toBe(bytes.byteLength);
    expect(await diff(inputOf(bytes), new Blob([before]), { password })).toMatchObject({ equal: true });
    if (!name.endsWith("vault")) {
      const out = memory();
      await convert(inputOf(bytes), out, { to: "safetensors", password, allowLossy: true });
      expect([...out.files.values()][0]?.byteLength).toBeGreaterThan(1_000_000);
    }
    expect(Buffer.compare(bytes, before)).toBe(0);
  });
});

test("a Buffer is signed as a file is, and stays as it is", async () => {
  const bytes = readFileSync(at("m.apr"));
  const before = Uint8Array.from(bytes);
  const out = memory();
  await sign(bytes, { key, output: out });
  expect(Buffer.compare(bytes, before)).toBe(0);
  expect(await verify([...out.files.values()][0] ?? bytes)).toMatchObject({ ok: true });
});

describe("an async iterable", () => {
  test("is an input: a stream of Node, or a generator", async () => {
    const whole = await inspect(new Blob([readFileSync(at("m.gguf"))]));
    for (const input of [
      createReadStream(at("m.gguf")),
      Readable.toWeb(createReadStream(at("m.gguf"))),
      Readable.from([readFileSync(at("m.gguf"))]),
    ]) {
      expect((await inspect(input)).tensorCount).toBe(whole.tensorCount);
    }
  });

  test("that gives something else, fails or is locked says so", async () => {
    const failing = (async function* () {
      yield new Uint8Array(8);
      throw new Error("the line went down");
    })();
    await expect(open(failing)).rejects.toMatchObject({ code: "source/stream", message: /the line went down/ });
    const texts = Readable.from(["text"]) as unknown as AsyncIterable<Uint8Array>;
    await expect(open(texts)).rejects.toMatchObject({ code: "source/stream", message: /found string/ });
    const locked = new ReadableStream<Uint8Array>();
    locked.getReader();
    await expect(open(locked)).rejects.toMatchObject({ code: "source/stream" });
  });

  test("that falls silent ends with the signal", async () => {
    const reason = new Error("enough");
    const control = new AbortController();
    const silent = (async function* (): AsyncGenerator<Uint8Array> {
      yield new Uint8Array(8);
      await new Promise(() => undefined);
    })();
    const opening = open(silent, { signal: control.signal });
    setImmediate(() => control.abort(reason));
    await expect(opening).rejects.toBe(reason);
  });
});

describe("a Source that breaks its promise", () => {
  const broken: readonly (readonly [string, Partial<Source>])[] = [
    ["gives fewer bytes", { read: async () => new Uint8Array(1) }],
    ["gives more bytes", { read: async (_at, length) => new Uint8Array(length + 1) }],
    ["gives no bytes", { read: async () => "text" as never }],
    ["has no length", { byteLength: Number.NaN }],
    ["has half a byte", { byteLength: 1000.5 }],
  ];
  test.each(broken)("%s", async (_what, wrong) => {
    const source = { ...bufferSource(readFileSync(at("m.gguf"))), ...wrong };
    await expect(inspect(source)).rejects.toMatchObject({ code: "source/contract" });
  });

  test.each([
    ["ends early", 10],
    ["never ends", 1 << 30],
  ])("a stream that %s", async (_what, given) => {
    const source: Source = {
      ...bufferSource(readFileSync(at("m.aero"))),
      async *stream() {
        for (let done = 0; done < given; done += 10) yield new Uint8Array(10);
      },
    };
    const report = verify(source).then(
      ({ findings }) => findings.map(({ code }) => code),
      (error: { readonly code: string }) => [error.code],
    );
    expect(await report).toContain("source/contract");
  });
});

describe("a WritableStream", () => {
  /** A stream, and what its other end saw. */
  function piped(): { readonly output: WritableStream<Uint8Array>; readonly seen: Promise<unknown> } {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const seen = new Response(readable).arrayBuffer().then(
      (all) => all.byteLength,
      (error: unknown) => error,
    );
    return { output: writable, seen };
  }

  test("gets the file, and its other end the end", async () => {
    const { output, seen } = piped();
    await convert(readFileSync(at("m.safetensors")), output, { to: "gguf" });
    expect(await seen).toBeGreaterThan(1_000_000);
  });

  const reason = new Error("enough");
  interface Call extends ConvertOptions {
    readonly input?: Buffer;
  }

  test.each<[string, Call]>([
    ["aborted before", { to: "gguf", signal: AbortSignal.abort(reason) }],
    ["an unknown option", { to: "gguf", wrong: true } as Call],
    ["several files", { to: "safetensors", maxShardSize: "1MB" }],
    ["nothing to read", { to: "gguf", input: Buffer.from("no model at all") }],
  ])("learns why nothing comes: %s", async (_what, { input = readFileSync(at("m.safetensors")), ...options }) => {
    const { output, seen } = piped();
    const failed = await convert(input, output, options).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(Error);
    expect(await seen).toBe(failed);
    expect(output.locked).toBe(false);
  });

  test("learns why nothing more comes, in the middle", async () => {
    const { output, seen } = piped();
    const control = new AbortController();
    const options = { to: "gguf", signal: control.signal, onProgress: () => control.abort(reason) };
    await expect(convert(readFileSync(at("m.safetensors")), output, options)).rejects.toBe(reason);
    expect(await seen).toBe(reason);
  });

  type Write = (output: WritableStream<Uint8Array>, signal: AbortSignal) => Promise<unknown>;
  const bytes = (): Buffer => readFileSync(at("m.safetensors"));
  test.each<[string, Write]>([
    ["sign", (output, signal) => sign(bytes(), { key, output, signal })],
    ["sign, without a key", (output) => sign(bytes(), { output } as never)],
    ["stamp", (output, signal) => stamp(bytes(), { set: { a: "b" }, output, signal })],
    ["embed", (output, signal) => embed(bytes(), "a", { as: "npy", output, signal })],
    ["embed, a wrong model", (output) => embed(bytes(), "a", { as: "npy", output })],
    ["a vault's cat", async (output, signal) => (await vault()).cat("m.gguf", output, { signal })],
    ["a vault's cat, no such file", async (output) => (await vault()).cat("x", output)],
    ["a vault's extract", async (output) => (await vault()).extract(output)],
  ])("learns it also where it is an option, or a vault's output: %s", async (_what, write) => {
    const { output, seen } = piped();
    const failed = await write(output, AbortSignal.abort(reason)).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(Error);
    expect(await seen).toBe(failed);
  });

  /** A vault in which nothing has that name. */
  async function vault(): Promise<Vault> {
    return openVault(readFileSync(at("plain.aerovault")));
  }

  test("that somebody else writes to is left alone", async () => {
    const { output } = piped();
    const writer = output.getWriter();
    const call = convert(readFileSync(at("m.safetensors")), output, { to: "gguf" });
    await expect(call).rejects.toMatchObject({ code: "source/stream" });
    await writer.abort();
  });
});
