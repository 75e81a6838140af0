import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as node from "../../src/platform/node/index.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { noise } from "../node/same-as-command.ts";
import { etagOf, startRangeServer } from "../support/range-server.ts";

/** Bytes that arrive damaged are kept as they are. Once they prove wrong, the next call must ask the server again. */

let folder: string;
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-distrust-"));
  const tensor = (name: string) => ({ name, dtype: "F32", shape: [256, 512], bytes: noise(256 * 512 * 4) });
  await node.convert(buildSafetensors([tensor("a"), tensor("b")]), at("m.aero"), { tensorHashes: true });
  const vault = await node.createVault(at("m.aerovault"), { encryption: false, env: { XDG_STATE_HOME: at("state") } });
  await vault.write("b", noise(1_000_000));
  await vault.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Options {
  readonly cache: string;
  readonly env: Readonly<Record<string, string>>;
}
type Call = (url: string, options: Options) => Promise<unknown>;
const force = true;

const MODEL_CALLS: readonly (readonly [string, Call])[] = [
  ["verify", async (url, options) => check(await node.verify(url, options))],
  ["convert", (url, options) => node.convert(url, at("c.gguf"), { ...options, force })],
  ["quantize", (url, options) => node.quantize(url, at("q.gguf"), { ...options, type: "q8_0", force })],
  ["dequantize", (url, options) => node.dequantize(url, at("d.gguf"), { ...options, force })],
  ["shard", (url, options) => node.shard(url, at("s"), { ...options, maxSize: "600kB", force })],
  ["merge", (url, options) => node.merge(url, at("m2.aero"), { ...options, force })],
];

const VAULT_CALLS: readonly (readonly [string, Call])[] = [
  ["vault.read", (url, options) => inVault(url, options, (vault) => vault.read("b"))],
  ["vault.source", (url, options) => inVault(url, options, (vault) => vault.source("b").read(0, 1_000_000))],
  ["vault.scrub", (url, options) => inVault(url, options, async (vault) => check(await vault.scrub()))],
  ["vault.extract", (url, options) => inVault(url, options, (vault) => extracted(vault, options))],
];

async function inVault(url: string, options: Options, use: (vault: node.Vault) => Promise<unknown>): Promise<void> {
  const vault = await node.openVault(url, options);
  try {
    await use(vault);
  } finally {
    await vault.close();
  }
}

async function extracted(vault: node.Vault, { env }: Options): Promise<void> {
  const { failed } = await vault.extract(at("out"), { force, env });
  check({ findings: failed });
}

/** What verbs report as findings, as an error. */
function check({ findings }: { readonly findings: readonly { readonly code: string }[] }): void {
  for (const { code } of findings) if (code.startsWith("integrity/")) throw Object.assign(new Error(code), { code });
}

describe.each([
  ...MODEL_CALLS.map(([verb, call]) => [verb, "m.aero", call] as const),
  ...VAULT_CALLS.map(([verb, call]) => [verb, "m.aerovault", call] as const),
])("%s()", (verb, name, call) => {
  test("drops what it has read from the cache once that proved damaged", async () => {
    const sound = new Uint8Array(readFileSync(at(name)));
    const damaged = sound.slice();
    damaged[900_000] = (damaged[900_000] ?? 0) ^ 0xff;
    const server = await startRangeServer(sound, `/${name}`);
    const options = { cache: at(`cache-${verb}`), env: { XDG_STATE_HOME: at("state") } };
    try {
      // The line damages the bytes and not their tag.
      server.setBytes(damaged, etagOf(sound));
      await expect(call(server.url, options)).rejects.toMatchObject({ code: expect.stringMatching(/^integrity\//) });
      server.setBytes(sound);
      await call(server.url, options);
    } finally {
      await server.close();
    }
  });
});
