import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Bytes, concatBytes } from "../src/base/bytes.ts";
import { isTareError } from "../src/base/errors.ts";
import { encodeUtf8 } from "../src/base/text.ts";
import { blobSource } from "../src/bytes/blob.ts";
import { memorySource } from "../src/bytes/memory.ts";
import { open } from "../src/index.ts";
import { openThrough, requireModel } from "../src/open.ts";
import { type OpenedTarget, openTarget } from "../src/platform/node/targets.ts";
import { craftVault, VAULT_PASSWORD } from "./builders/crafted-vault.ts";
import { quickEngine } from "./builders/sealed-apr.ts";
import { craftVault2 } from "./builders/vault2.ts";
import { smallGguf, smallSafetensors } from "./cli/small-models.ts";
import { countingSource } from "./support/counting-source.ts";
import { startRangeServer } from "./support/range-server.ts";

const engine = quickEngine();
const password = async (): Promise<Bytes> => encodeUtf8(VAULT_PASSWORD);

function pieces(bytes: Bytes, size = 100): Bytes[] {
  return Array.from({ length: Math.ceil(bytes.byteLength / size) }, (_, i) => bytes.slice(i * size, (i + 1) * size));
}

/** A vault with models, and a vault with models in it. */
async function modelVault(): Promise<Bytes> {
  const inner = await craftVault([{ path: "deep/model.gguf", chunks: pieces(smallGguf()) }], { lane: "plain" });
  return craftVault([
    { path: "models", type: "directory" },
    { path: "models/a.gguf", chunks: pieces(smallGguf()) },
    { path: "models/b.safetensors", chunks: pieces(smallSafetensors()) },
    { path: "odd::name.gguf", chunks: pieces(smallGguf()) },
    { path: "inner.aerovault", chunks: pieces(inner, 500) },
  ]);
}

const built = modelVault();

async function onDisk(name = "v.aerovault"): Promise<string> {
  const path = join(mkdtempSync(join(tmpdir(), "tare-inside-")), name);
  writeFileSync(path, await built);
  return path;
}

async function failureOf(opening: Promise<OpenedTarget>): Promise<unknown> {
  const error: unknown = await opening.catch((thrown: unknown) => thrown);
  return isTareError(error) ? error : expect.fail("was opened");
}

describe("TARGET::path", () => {
  it.each(["models/a.gguf", "inner.aerovault::deep/model.gguf", "odd::name.gguf"])(
    "opens a model at %s without a file of its own",
    async (inner) => {
      const path = await onDisk();
      const opened = await openTarget(`${path}::${inner}`, { engine, password });
      expect(opened.container).toMatchObject({ kind: "model", format: "gguf" });
      expect(opened.label).toBe(`${path}::${inner}`);
      expect(opened.resolver).toBeUndefined();
      const [tensor] = requireModel(opened.container).tensors;
      expect(await tensor?.bytes()).toHaveLength(tensor?.byteLength ?? -1);
      await opened.close();
    },
  );

  it("opens the vault inside a vault as an archive", async () => {
    const opened = await openTarget(`${await onDisk()}::inner.aerovault`, { engine, password });
    expect(opened.container).toMatchObject({ kind: "archive" });
    await opened.close();
  });

  it("a file whose own name has :: in it wins, whole or with a path behind it", async () => {
    const path = await onDisk("odd::v.aerovault");
    const whole = await openTarget(path, { engine, password });
    expect(whole.container.kind).toBe("archive");
    const inside = await openTarget(`${path}::models/b.safetensors`, { engine, password });
    expect(inside.container.format).toBe("safetensors");
    await Promise.all([whole.close(), inside.close()]);
  });

  it.each([
    ["no/such.gguf", "usage/entry-not-found"],
    ["models", "usage/ambiguous-target"],
    ["models/a.gguf::more", "usage/not-an-archive"],
  ])("refuses %s", async (inner, code) => {
    const error = await failureOf(openTarget(`${await onDisk()}::${inner}`, { engine, password }));
    expect(error).toMatchObject({ code });
  });

  it("reaches the files beside the one that is named, in the vault", async () => {
    const model = smallSafetensors();
    const index = encodeUtf8(
      JSON.stringify({ metadata: {}, weight_map: weightMap(model, "model-00001-of-00001.safetensors") }),
    );
    const vault = await craftVault([
      { path: "set/model.safetensors.index.json", chunks: [index] },
      { path: "set/model-00001-of-00001.safetensors", chunks: pieces(model) },
    ]);
    const opened = await openThrough(memorySource(vault), ["set/model.safetensors.index.json"], { engine, password });
    expect(requireModel(opened.container).tensors).toHaveLength(4);
    await opened.container.close();
  });

  it("closes everything that it opened, also when it fails", async () => {
    const source = countingSource(memorySource(await built));
    const opened = await openThrough(source, ["inner.aerovault", "deep/model.gguf"], { engine, password });
    await opened.container.close();
    expect(source.closeCount).toBe(1);
    await expect(openThrough(source, ["inner.aerovault", "gone"], { engine, password })).rejects.toMatchObject({
      code: "source/closed",
    });
    const other = countingSource(memorySource(await built));
    await expect(openThrough(other, ["inner.aerovault", "gone"], { engine, password })).rejects.toMatchObject({
      code: "usage/entry-not-found",
    });
    expect(other.closeCount).toBe(1);
  });
});

it("open() reads a model in a vault behind a URL, and only the parts of it that are needed", async () => {
  const filler = concatBytes(Array.from({ length: 40 }, (_, i) => new Uint8Array(50_000).fill(i + 1)));
  const vault = await craftVault([
    { path: "big.bin", chunks: pieces(filler, 50_000) },
    { path: "m.gguf", chunks: pieces(smallGguf()) },
  ]);
  const server = await startRangeServer(vault, "/v.aerovault");
  try {
    const container = await open(`${server.url}::m.gguf`, { engine, password });
    const [tensor] = requireModel(container).tensors;
    expect(await tensor?.bytes()).toHaveLength(tensor?.byteLength ?? -1);
    await container.close();
    const sent = server.requests.map(({ range }) => (range === undefined ? vault.byteLength : range[1] + 1 - range[0]));
    expect(sent.reduce((sum, length) => sum + length, 0)).toBeLessThan(vault.byteLength / 4);
  } finally {
    await server.close();
  }
});

it("open() reads a model in a vault of version 2 behind a URL by the chunks it needs", async () => {
  const filler = Array.from({ length: 40 }, (_, i) => new Uint8Array(65_536).fill(i + 1));
  const files = [
    { path: "big.bin", chunks: filler },
    { path: "m.gguf", chunks: pieces(smallGguf(), 65_536) },
  ];
  const vault = await craftVault2(files, { chunkSize: 65_536 });
  const server = await startRangeServer(vault, "/v.aerovault");
  try {
    const container = await open(`${server.url}::m.gguf`, { engine, password });
    const [tensor] = requireModel(container).tensors;
    expect(await tensor?.bytes()).toHaveLength(tensor?.byteLength ?? -1);
    await container.close();
    const sent = server.requests.map(({ range }) => (range === undefined ? vault.byteLength : range[1] + 1 - range[0]));
    expect(sent.reduce((sum, length) => sum + length, 0)).toBeLessThan(vault.byteLength / 4);
  } finally {
    await server.close();
  }
});

it("open() takes a Blob, as a browser has it", async () => {
  const archive = await open(blobSource(new Blob([await built])), { engine, password });
  expect(archive.kind === "archive" ? archive.entries.map(({ path }) => path) : []).toContain("models/a.gguf");
  await archive.close();
});

function weightMap(bytes: Bytes, file: string): Record<string, string> {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header: Record<string, unknown> = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  return Object.fromEntries(
    Object.keys(header)
      .filter((name) => name !== "__metadata__")
      .map((name) => [name, file]),
  );
}
