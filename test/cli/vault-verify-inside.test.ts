import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { nativeEngine } from "../../src/platform/node/engine/native.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { rememberingKeys } from "../builders/vault.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { craftVault2 } from "../builders/vault2.ts";
import { xorshiftBytes } from "../vectors/xorshift.ts";
import { callTare, type Run, scratch } from "./run-tare.ts";

/** SafeTensors has no digest of its weights; the vault around it has one of every block. */

const LENGTH = 10 << 20;
const MODEL = buildSafetensors([{ name: "w", dtype: "U8", shape: [LENGTH], bytes: xorshiftBytes(LENGTH, 5n) }]);

type Place = ReturnType<typeof scratch>;

function run(file: Place, ...args: readonly string[]): Promise<Run> {
  const env = { XDG_STATE_HOME: file("state") };
  return callTare([...args, "--password-file", file("pw", VAULT_PASSWORD)], { env });
}

async function ok(file: Place, ...args: readonly string[]): Promise<void> {
  const { code, err } = await run(file, ...args);
  expect(code, err).toBe(0);
}

/** Changes a byte of the weights far from the header of the model, so that the model still opens. */
function hurt(vault: string): void {
  const bytes = readFileSync(vault);
  const late = Math.floor(bytes.byteLength * 0.9);
  bytes[late] = (bytes[late] as number) ^ 1;
  writeFileSync(vault, bytes);
}

interface Answer {
  readonly ok: boolean;
  readonly weights: string;
  readonly checked: Readonly<Record<string, number>>;
  readonly findings: readonly { readonly code: string; readonly name?: string }[];
}

async function verify(
  file: Place,
  target: string,
  ...more: readonly string[]
): Promise<Answer & { code: number | null }> {
  const { code, out } = await run(file, "verify", target, "--json", ...more);
  return { ...(JSON.parse(out) as Answer), code };
}

async function provesWeights(file: Place, vault: string, inner: string): Promise<void> {
  const target = `${vault}::${inner}`;
  const sound = await verify(file, target);
  expect(sound).toMatchObject({ code: 0, ok: true, weights: "compared", checked: { vaultBytes: MODEL.byteLength } });
  expect((await run(file, "verify", target)).out).toMatch(/full check of .* proven by the vault: /);
  hurt(vault);
  const damaged = await verify(file, target);
  expect(damaged).toMatchObject({ code: 5, ok: false });
  expect(damaged.findings.some(({ code, name }) => code.startsWith("integrity/") && name === inner)).toBe(true);
  for (const level of ["--quick", "--control"]) {
    const { checked } = await verify(file, target, level);
    expect(checked).not.toHaveProperty("vaultBytes");
  }
}

describe("verify of a model inside a vault", () => {
  it("reads every block of it", async () => {
    const file = scratch();
    mkdirSync(file("m"));
    file("m/a.safetensors", MODEL);
    await ok(file, "vault", "create", file("v"), "--profile", "fast");
    await ok(file, "vault", "add", file("v"), file("m"));
    await provesWeights(file, file("v"), "m/a.safetensors");
  });

  it("reads a vault without encryption, and a vault inside another", async () => {
    const file = scratch();
    const open = ["--no-encryption"];
    const env = { XDG_STATE_HOME: file("state") };
    const call = (...args: readonly string[]): Promise<Run> => callTare([...args, ...open], { env });
    file("a.safetensors", MODEL);
    for (const args of [
      ["vault", "create", file("inner")],
      ["vault", "add", file("inner"), file("a.safetensors")],
      ["vault", "create", file("outer")],
      ["vault", "add", file("outer"), file("inner")],
    ])
      expect((await call(...args)).code).toBe(0);
    hurt(file("inner"));
    expect((await call("verify", `${file("inner")}::a.safetensors`)).code).toBe(5);
    const nested = `${file("outer")}::inner::a.safetensors`;
    expect((await call("verify", nested)).code).toBe(0);
    hurt(file("outer"));
    expect((await call("verify", nested)).code).toBe(5);
  });

  it("reads the shards beside the index that is named", async () => {
    const file = scratch();
    const names = ["v", "w"];
    const tensors = names.map((name, i) => ({
      name,
      dtype: "U8",
      shape: [LENGTH],
      bytes: xorshiftBytes(LENGTH, 7n + BigInt(i)),
    }));
    file("a.safetensors", buildSafetensors(tensors));
    await ok(file, "shard", file("a.safetensors"), "-o", file("set"), "--max-size", "11MB");
    await ok(file, "vault", "create", file("v"), "--profile", "fast");
    await ok(file, "vault", "add", file("v"), file("set"));
    const target = `${file("v")}::set/a.safetensors.index.json`;
    const sound = await verify(file, target);
    expect(sound).toMatchObject({ code: 0 });
    expect(sound.checked["vaultBytes"]).toBeGreaterThan(2 * LENGTH);
    hurt(file("v"));
    expect(await verify(file, target)).toMatchObject({ code: 5 });
  });

  it("reads vaults of version 2", async () => {
    const file = scratch();
    const cut = (size: number): Bytes[] =>
      Array.from({ length: Math.ceil(MODEL.byteLength / size) }, (_, i) => MODEL.slice(i * size, (i + 1) * size));
    const engine = rememberingKeys(await nativeEngine());
    const files = [{ path: "a.safetensors", chunks: cut(65_536) }];
    const vault = file("v2", await craftVault2(files, { engine, chunkSize: 65_536 }));
    await provesWeights(file, vault, "a.safetensors");
  });

  it("reads vaults of version 1", async () => {
    const file = scratch();
    const vault = file("v1", await craftVault1([{ path: "a.safetensors", bytes: MODEL, compress: "stored" }]));
    const target = `${vault}::a.safetensors`;
    const sound = await verify(file, target);
    expect(sound).toMatchObject({ code: 0, weights: "compared", checked: { vaultBytes: MODEL.byteLength } });
    hurt(vault);
    expect(await verify(file, target)).toMatchObject({ code: 5, ok: false });
  });
});
