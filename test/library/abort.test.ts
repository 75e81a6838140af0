import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FileHandle } from "../../src/bytes/handles/handle.ts";
import type { Sink } from "../../src/bytes/sink.ts";
import type { Source } from "../../src/bytes/source.ts";
import { nodeEngine } from "../../src/platform/node/engine/engine.ts";
import {
  convert,
  correct,
  createModel,
  diff,
  embed,
  extract,
  inspect,
  memory,
  openVault,
  sign,
  stamp,
  verify,
} from "../../src/platform/node/index.ts";
import { createVault } from "../../src/platform/node/vault/library.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { MemoryDirectory, MemoryHandle } from "../support/library.ts";

const reason = new Error("enough");
let folder = "";
let bytes: Uint8Array<ArrayBuffer>;
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-library-abort-"));
  const out = memory();
  const model = createModel([{ name: "w", dtype: "F32", shape: [4, 65536], data: new Float32Array(262144) }]);
  await convert(model, out, { to: "safetensors" });
  bytes = out.bytes;
  await (await createVault(at("e.aerovault"), { password: "correct horse" })).close();
  const plain = await createVault(at("p.aerovault"), { encryption: false });
  await plain.write("a", bytes);
  await plain.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a call that comes to wait for something of its caller's, which never answers, and aborts it then. */
async function abortedWhile(
  call: (signal: AbortSignal, never: () => Promise<never>) => Promise<unknown>,
): Promise<void> {
  const control = new AbortController();
  let waits = 0;
  const never = (): Promise<never> => {
    waits++;
    setImmediate(() => control.abort(reason));
    return new Promise(() => undefined);
  };
  await expect(call(control.signal, never)).rejects.toBe(reason);
  expect(waits).toBeGreaterThan(0);
}

/** An engine of which some is replaced. */
async function engineWith(other: Partial<Engine>): Promise<Engine> {
  const engine = await nodeEngine({ workers: 0 });
  return new Proxy(engine, {
    get(of, name) {
      const value: unknown = Reflect.get(other, name) ?? Reflect.get(of, name, of);
      return typeof value === "function" ? value.bind(of) : value;
    },
  });
}

const gguf = { to: "gguf", allowLossy: true } as const;
const file = (name: string, more: Partial<FileHandle>): FileHandle => ({
  kind: "file",
  name,
  getFile: async () => new Blob([bytes]),
  ...more,
});
const sink = (more: Partial<Sink>): Sink => {
  let position = 0;
  return {
    label: "mine",
    get position() {
      return position;
    },
    append: async (piece) => {
      position += piece.byteLength;
    },
    commit: async () => undefined,
    abort: async () => undefined,
    ...more,
  };
};
const source = (more: Partial<Source>): Source => ({
  label: "mine",
  byteLength: bytes.byteLength,
  read: async (offset, byteLength) => bytes.slice(offset, offset + byteLength),
  async *stream(offset, { byteLength = bytes.byteLength - offset } = {}) {
    yield bytes.slice(offset, offset + byteLength);
  },
  close: async () => undefined,
  ...more,
});

describe("an abort is answered while a call waits for", () => {
  type Waiting = (signal: AbortSignal, never: () => Promise<never>) => Promise<unknown>;
  const calls: Readonly<Record<string, Waiting>> = {
    "a password": (signal, password) => openVault(at("e.aerovault"), { signal, password }),
    "the keys of a vault": async (signal, argon2id) =>
      openVault(at("e.aerovault"), { signal, password: "correct horse", engine: await engineWith({ argon2id }) }),
    "the keys of a new vault": async (signal, argon2id) =>
      createVault(at("new.aerovault"), { signal, password: "correct horse", engine: await engineWith({ argon2id }) }),
    "the keys of an APR": async (signal, argon2id) => {
      const engine = await engineWith({ argon2id });
      return convert(bytes, memory(), { to: "apr", encrypt: true, signal, password: "correct horse", engine });
    },
    "the keys of a new password": async (signal, argon2id) => {
      let derive: undefined | typeof argon2id;
      const plain = await nodeEngine({ workers: 0 });
      const engine = await engineWith({ argon2id: (...call) => (derive ?? plain.argon2id.bind(plain))(...call) });
      await using vault = await openVault(at("e.aerovault"), { password: "correct horse", engine });
      derive = argon2id;
      await vault.changePassword("battery staple", { signal });
    },
    "a new password": (signal, password) => createVault(at("new.aerovault"), { signal, password }),
    "a stream that is stalled": (signal, write) => convert(bytes, new WritableStream({ write }), { ...gguf, signal }),
    "a stream that does not start": (signal, start) =>
      convert(bytes, new WritableStream({ start }), { ...gguf, signal }),
    "a stream that does not close": (signal, close) =>
      convert(bytes, new WritableStream({ close }), { ...gguf, signal }),
    "a stream that neither takes nor ends": (signal, write) =>
      convert(bytes, new WritableStream({ write, abort: () => new Promise(() => undefined) }), { ...gguf, signal }),
    "the stream of a handle": (signal, write) =>
      convert(bytes, file("x", { createWritable: async () => new WritableStream({ write }) }), { ...gguf, signal }),
    "a picked file": (signal, getFile) => inspect(file("x", { getFile }), { signal }),
    "a handle to write to": (signal, createWritable) =>
      convert(bytes, file("x", { createWritable }), { ...gguf, signal }),
    "a handle to stamp": (signal, createWritable) => stamp(file("x", { createWritable }), { set: { a: "b" }, signal }),
    "a handle to sign": async (signal, createWritable) => {
      const apr = memory();
      await convert(bytes, apr, { to: "apr" });
      const { privateKey } = await import("node:crypto").then(({ generateKeyPairSync }) =>
        generateKeyPairSync("ed25519"),
      );
      const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
      const handle = { ...file("x.apr", { createWritable }), getFile: async () => new Blob([apr.bytes]) };
      return sign(handle, { key, signal });
    },
    "a folder of handles": (signal, next) => {
      const keys = () => ({ [Symbol.asyncIterator]: () => ({ next }) });
      return inspect(Object.assign(new MemoryDirectory(), { keys }), { signal });
    },
    "a handle in a folder": (signal, getFileHandle) => {
      const picked = Object.assign(new MemoryDirectory(), { getFileHandle });
      picked.files.set("m.safetensors", new MemoryHandle("m.safetensors"));
      return inspect(picked, { signal });
    },
    "a folder of handles to write to": (signal, getFileHandle) =>
      extract(bytes, Object.assign(new MemoryDirectory(), { getFileHandle }), { signal }),
    "a folder's new file": (signal, create) => extract(bytes, { label: "mine", name: "", create }, { signal }),
    "a folder's file": (signal, peek) =>
      extract(bytes, { label: "mine", name: "", create: async () => sink({}), peek }, { signal }),
    "a Source": (signal, read) => inspect(source({ read }), { signal }),
    "a Source of another": (signal, read) => diff(bytes, source({ read }), { signal }),
    "a Source to verify": (signal, read) => verify(source({ read }), { signal }),
    "a Sink": (signal, append) => convert(bytes, sink({ append }), { ...gguf, signal }),
    "a Sink that commits": (signal, commit) => convert(bytes, sink({ commit }), { ...gguf, signal }),
    "a Sink that neither takes nor ends": (signal, append) =>
      convert(bytes, sink({ append, abort: () => new Promise(() => undefined) }), { ...gguf, signal }),
    "a fetch of its own": (signal, fetch) => inspect("http://127.0.0.1/x", { signal, cache: false, fetch }),
    "a reply of a fetch of its own": (signal, pull) =>
      inspect("http://127.0.0.1/x", {
        signal,
        cache: false,
        fetch: async () => new Response(new ReadableStream({ pull }), { headers: { "content-length": "9" } }),
      }),
    "the stream that a vault's file goes to": async (signal, write) => {
      await using vault = await openVault(at("p.aerovault"));
      await vault.cat("a", new WritableStream({ write }), { signal });
    },
    "the folder that a vault goes to": async (signal, create) => {
      await using vault = await openVault(at("p.aerovault"));
      await vault.extract({ label: "mine", name: "", create }, { signal });
    },
    "what a vault's file is made of": async (signal, next) => {
      await using vault = await openVault(at("p.aerovault"));
      await vault.write("b", { [Symbol.asyncIterator]: () => ({ next }) }, { signal });
    },
    "the Source that a vault's file is made of": async (signal, next) => {
      await using vault = await openVault(at("p.aerovault"));
      const stream = () => ({ [Symbol.asyncIterator]: () => ({ next }) });
      await vault.write("b", source({ read: next, stream }), { signal });
    },
    "the work of a batch": async (signal, work) => {
      await using vault = await openVault(at("p.aerovault"));
      await vault.batch(work, { signal });
    },
  };

  test.each(Object.entries(calls))("%s", async (_what, call) => {
    await abortedWhile(call);
    expect(readdirSync(folder).sort()).toEqual(["e.aerovault", "p.aerovault"]);
  });
});

describe.runIf(process.platform === "linux")("an abort ends the wait for a file that an option names", () => {
  const calls: Record<string, (path: string, signal: AbortSignal) => Promise<unknown>> = {
    vocab: (vocab, signal) => convert(at("m.safetensors"), at("x.weights"), { vocab, signal }),
    metadata: (metadata, signal) => convert(at("m.safetensors"), at("x.gguf"), { metadata, signal }),
    "vocab of embed": (vocab, signal) => embed(at("m.safetensors"), ["text"], { vocab, signal }),
    digests: (digests, signal) => verify(at("m.safetensors"), { digests, signal }),
    key: (key, signal) => sign(at("m.safetensors"), { key, signal }),
  };
  beforeAll(() => writeFileSync(at("m.safetensors"), bytes));
  afterAll(() => rmSync(at("m.safetensors")));

  test.each(Object.entries(calls))("%s, a pipe that says nothing", async (_, call) => {
    const pipe = at("pipe");
    execFileSync("mkfifo", [pipe]);
    const control = new AbortController();
    const running = call(pipe, control.signal).catch((error: unknown) => error);
    // A pipe can be opened for writing, without waiting, as soon as something reads it.
    const flags = constants.O_WRONLY | constants.O_NONBLOCK;
    const writers: number[] = [];
    await expect.poll(() => writers.push(...openIfRead(pipe, flags))).toBeGreaterThan(0);
    control.abort(reason);
    expect(await running).toBe(reason);
    for (const writer of writers) closeSync(writer);
    rmSync(pipe);
  });

  test.each(["vocab", "metadata", "vocab of embed"])("%s, a server that says nothing", async (name) => {
    const control = new AbortController();
    const server = createServer(() => control.abort(reason));
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    try {
      const { port } = server.address() as AddressInfo;
      const call = calls[name]?.(`http://127.0.0.1:${port}/named.txt`, control.signal);
      await expect(call).rejects.toBe(reason);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

/** A descriptor, or none while nothing reads the pipe. */
function openIfRead(pipe: string, flags: number): readonly number[] {
  try {
    return [openSync(pipe, flags)];
  } catch {
    return [];
  }
}

/** Files in our folder that this process holds open, its threads included. */
function openHandles(): readonly string[] {
  const targetOf = (name: string): string => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`);
    } catch {
      return ""; // the one that lists them
    }
  };
  return readdirSync("/proc/self/fd")
    .map(targetOf)
    .filter((target) => target.startsWith(folder));
}

describe.runIf(existsSync("/proc/self/fd"))("nothing is open", () => {
  const large = (): string => {
    if (!existsSync(at("large"))) writeFileSync(at("large"), new Uint8Array(96 << 20));
    return at("large");
  };
  afterAll(() => rmSync(at("large")));

  test("after correct.generate, aborted in the middle", async () => {
    const control = new AbortController();
    const call = correct.generate(large(), { signal: control.signal }).catch((error: unknown) => error);
    // In the middle: the threads have the file open, and the sidecar is being made.
    const isMade = (): boolean => openHandles().some((path) => path.includes(".tare-partial-"));
    await expect.poll(isMade, { interval: 1 }).toBe(true);
    control.abort(reason);
    expect(await call).toBe(reason);
    expect(openHandles()).toEqual([]);
    expect(readdirSync(folder)).not.toContain("large.aerocorrect");
  });

  test.each([1, 2])("after correct.generate, whose onProgress fails at its event number %d", async (failing) => {
    let events = 0;
    const onProgress = (): void => {
      if (++events === failing) throw reason;
    };
    const options = { onProgress, force: true };
    const result = await correct.generate(large(), options).catch((error: unknown) => error);
    const isThere = readdirSync(folder).filter((name) => name.startsWith("large."));
    expect([isThere, openHandles()]).toEqual([result === reason ? [] : ["large.aerocorrect"], []]);
    rmSync(at("large.aerocorrect"), { force: true });
  });
});
