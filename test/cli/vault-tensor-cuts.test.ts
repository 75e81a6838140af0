import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { buildSafetensors } from "../builders/safetensors.ts";
import { makeXorshift } from "../builders/vault-content.ts";
import { callTare, type Run, tare } from "./run-tare.ts";

/** Whatever way a model goes into a vault, it is cut at its tensors: weights that the vault has are not stored again. */

const TENSOR_BYTES = 400_000;
const WEIGHT_BYTES = 3 * TENSOR_BYTES;

let folder: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-cuts-"));
  env = { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD_FILE: join(folder, "pw") };
  writeFileSync(join(folder, "pw"), "correct horse\n");
  const tensors = ["a.weight", "b.weight", "c.weight"].map((name, i) => ({
    name,
    dtype: "F32",
    shape: [100, 1000],
    bytes: floatsOf(BigInt(2 * i + 3)),
  }));
  writeFileSync(join(folder, "m.safetensors"), buildSafetensors(tensors));
  await ok("vault", "create", "@fresh", "--profile", "fast");
  await ok("vault", "add", "@fresh", "@m.safetensors");
});
beforeEach(() => copyFileSync(join(folder, "fresh"), join(folder, "v")));
afterAll(() => rmSync(folder, { recursive: true }));

/** Random numbers between 1 and 2, which no compression makes much shorter. */
function floatsOf(seed: bigint): Uint8Array<ArrayBuffer> {
  const bytes = makeXorshift(seed, TENSOR_BYTES);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let i = 0; i < TENSOR_BYTES; i += 4) view.setUint32(i, (view.getUint32(i, true) & 0x7fffff) | 0x3f800000, true);
  return bytes;
}

async function ok(...args: readonly string[]): Promise<Run> {
  const done = await callTare(
    args.map((word) => word.replace(/^@/, `${folder}/`)),
    { env },
  );
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  return done;
}

interface Stored {
  readonly chunkCount: number;
  readonly storedBytes: number;
}

async function stored(vault: string): Promise<Stored> {
  const { chunkCount, storedBytes } = JSON.parse((await ok("vault", "info", vault, "--json")).out) as Stored;
  return { chunkCount, storedBytes };
}

/** What a vault with the model's weights gains by adding the file from disk. */
async function gainOfAdd(path: string): Promise<Stored> {
  copyFileSync(join(folder, "fresh"), join(folder, "other"));
  await ok("vault", "add", "@other", path);
  return gain("@other");
}

async function gain(vault: string): Promise<Stored> {
  const before = await stored("@fresh");
  const after = await stored(vault);
  return {
    chunkCount: after.chunkCount - before.chunkCount,
    storedBytes: after.storedBytes - before.storedBytes,
  };
}

describe("a model written into a vault", () => {
  const ways: readonly (readonly [string, readonly string[]])[] = [
    ["x.gguf", ["convert", "@m.safetensors", "OUT"]],
    ["x.apr", ["convert", "@m.safetensors", "OUT"]],
    ["s.safetensors", ["stamp", "@m.safetensors", "--set", "a=b", "-o", "OUT"]],
    ["one.safetensors", ["merge", "@m.safetensors", "-o", "OUT"]],
    ["copy.safetensors", ["vault", "cat", "@fresh", "m.safetensors", "-o", "OUT"]],
    ["q.gguf", ["quantize", "@m.safetensors", "OUT", "-t", "q8_0"]],
  ];

  it.each(ways)("is cut as if it were added from disk: %s", async (name, args) => {
    const to = (place: string): string[] => args.map((word) => word.replace("OUT", place));
    await ok(...to(`@v::${name}`));
    await ok(...to(`@${name}`));
    const { stdout } = await ok("vault", "cat", "@v", name);
    expect(stdout.equals(readFileSync(join(folder, name)))).toBe(true);
    const found = await gain("@v");
    expect(found).toEqual(await gainOfAdd(`@${name}`));
    if (args[0] !== "quantize") expect(found.storedBytes).toBeLessThan(WEIGHT_BYTES / 20);
    expect(readdirSync(folder).filter((entry) => entry.includes("spool"))).toEqual([]);
  });

  it("shares chunks where it is one tensor", async () => {
    await ok("cat", "@m.safetensors", "b.weight", "-o", "@v::b.bin");
    expect(await gain("@v")).toEqual({ chunkCount: 0, storedBytes: 0 });
  });

  it("is cut at its tensors where it comes on standard input, unless that is not wanted", async () => {
    await ok("convert", "@m.safetensors", "@in.gguf");
    const input = readFileSync(join(folder, "in.gguf"));
    const add = (...more: readonly string[]): Promise<Run> =>
      tare(["vault", "add", "v", "-", ...more], { cwd: folder, env, input });
    expect((await add()).code).toBe(0);
    expect(await gain("@v")).toEqual(await gainOfAdd("@in.gguf"));
    expect((await add("--no-tensor-cuts")).code).toBe(0);
    expect((await gain("@v")).storedBytes).toBeGreaterThan(WEIGHT_BYTES / 2);
  });
});
