import { beforeAll, describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openSource } from "../../src/open.ts";
import { buildAero, mmsg, tidx, wtsh } from "../builders/aero.ts";
import { buildSet, countedFolder } from "../builders/aeroset.ts";
import { buildApr } from "../builders/apr.ts";
import { craftVault, VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { buildEmbd } from "../builders/embd.ts";
import { buildOnnx } from "../builders/onnx.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { quickEngine } from "../builders/sealed-apr.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { craftVault2 } from "../builders/vault2.ts";
import { measureProcessorTime } from "../support/processor-time.ts";

/** Tables as long as files of a few megabytes can have them: opening takes its time, in proportion, and hears who calls it off. */
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `model.layers.weight.${i}`);
const four = new Uint8Array(4);

/** A file, or those of a set. */
type Built = Bytes | ReadonlyMap<string, Bytes>;

const INDEX_NAME = "m.safetensors.index.json";
const SHARD_NAME = "m-00001-of-00001.safetensors";

const tensorsOf = (count: number) => names(count).map((name) => ({ name, dtype: "F32", shape: [1], bytes: four }));

const FILES: Readonly<Record<string, (count: number) => Built | Promise<Built>>> = {
  "AERO tensors": (count) => {
    const tensors = names(count).map((name, i) => ({ name, shape: [1], shard: 0, off: 4 * i, len: 4 }));
    return buildAero({ chunks: [mmsg("m"), tidx(tensors), wtsh(new Uint8Array(4 * count), 0)] });
  },
  "AERO chunks": (count) => {
    const shards = Array.from({ length: count }, (_, i) => wtsh(new Uint8Array(1), i));
    return buildAero({ chunks: [mmsg("m"), tidx([]), ...shards] });
  },
  "ONNX initializers": (count) =>
    buildOnnx({ nodes: [], tensors: names(count).map((name) => ({ name, dims: [1], raw: four })) }),
  "ONNX nodes": (count) => {
    const nodes = names(count).map((_, i) => ({ op: "Mul", inputs: [`v${i}`, "w"], outputs: [`v${i + 1}`] }));
    return buildOnnx({ nodes, tensors: [{ name: "w", dims: [1], raw: four }] });
  },
  "APR tensors": (count) =>
    buildApr({ tensors: names(count).map((name) => ({ name, dims: [1], data: four.slice(3) })) }),
  "EMBD tensors": (count) =>
    buildEmbd({ tensors: names(count).map((name) => ({ name, dtype: 0, shape: [1], bytes: four })) }),
  "EMBD metadata": (count) => buildEmbd({ metadata: names(count).map((name) => [name, "v"] as const) }),
  "SafeTensors tensors": (count) => buildSafetensors(tensorsOf(count)),
  "SafeTensors tensors with spaces": (count) => buildSafetensors(tensorsOf(count), { spacing: "python" }),
  "SafeTensors metadata": (count) =>
    buildSafetensors([], { metadata: Object.fromEntries(names(count).map((name) => [name, "v"])) }),
  "SafeTensors shards": (count) => {
    const map = Object.fromEntries(names(count).map((name) => [name, SHARD_NAME]));
    return new Map([
      [INDEX_NAME, encodeUtf8(JSON.stringify({ weight_map: map }))],
      [SHARD_NAME, buildSafetensors(tensorsOf(count))],
    ]);
  },
  "AEROSET parts": (count) =>
    buildSet({
      json: (set) => {
        const more = names(count).map((path, i) => ({ path, sha256: "00".repeat(32), size_bytes: 1, shards: [9 + i] }));
        return { ...set, parts: [...set.parts, ...more] };
      },
    }),
  "vaults of version 1": (count) =>
    craftVault1(
      names(count).map((path) => ({ path: `${path}/` })),
      { zip64: "always" },
    ),
  "vaults of version 2": (count) => craftVault2(names(count).map((path) => ({ path, type: "directory" }))),
  "entries of vaults": (count) => craftVault(names(count).map((path) => ({ path, type: "directory" }))),
  "chunks of vaults": (count) => {
    const chunks = names(count).map((_, i) => new Uint8Array(Uint32Array.of(i).buffer));
    return craftVault([{ path: "a", chunks }]);
  },
};

const engine = quickEngine();
const password = async (): Promise<Bytes> => encodeUtf8(VAULT_PASSWORD);

async function open(built: Built, signal?: AbortSignal): Promise<unknown> {
  const options = { signal, engine, password };
  if (built instanceof Uint8Array) return openSource(memorySource(built, "m"), options);
  const [name = "", bytes = four] = [...built].find(([key]) => key.endsWith(".json")) ?? [];
  return openSource(memorySource(bytes, name), { ...options, resolver: { ...countedFolder(built), name } });
}

/** How long the tables are: shorter where each row costs the builder or the reader more. */
const DEAR: Readonly<Record<string, number>> = {
  "AERO tensors": 16_000,
  "AERO chunks": 16_000,
  "ONNX initializers": 16_000,
  "ONNX nodes": 16_000,
  "EMBD tensors": 16_000,
  "AEROSET parts": 16_000,
  "vaults of version 1": 16_000,
  "vaults of version 2": 6_000,
  "chunks of vaults": 8_000,
};

describe.each(Object.entries(FILES))("%s", (name, build) => {
  const count = DEAR[name] ?? 40_000;
  let many: Built;
  beforeAll(async () => {
    many = await build(count);
    await open(await build(1)); // what reads the format is loaded by now
  });

  test("a timer runs while they are read, and its abort is heard", async () => {
    const stop = new AbortController();
    const asked = new Error("asked to stop");
    setTimeout(() => stop.abort(asked), 0);
    await expect(open(many, stop.signal)).rejects.toBe(asked);
  });

  test("four times as many take about four times as long", async () => {
    const few = await build(count / 4);
    await open(few);
    const once = await measureProcessorTime(() => open(few));
    const more = await measureProcessorTime(() => open(many));
    // The square would be sixteen times as long; short times are not measured well.
    expect(more.milliseconds).toBeLessThan(10 * once.milliseconds + 100);
  });
});
