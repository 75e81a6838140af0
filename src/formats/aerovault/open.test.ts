import { beforeAll, describe, expect, it } from "vitest";
import { vaultContext } from "../../../test/builders/known-vaults.ts";
import { rememberingKeys, TestVault } from "../../../test/builders/vault.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { OpenContext } from "../../model/format.ts";
import { nativeEngine } from "../../platform/node/engine/native.ts";
import type { Engine } from "../../primitives/engine.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { vaultHeader } from "./layout.ts";
import { openAerovault } from "./open.ts";

const PASSWORD = "a password of tests";
const COUNT = 6000;

/** Long enough for more than a megabyte of manifest. */
const nameOf = (i: number): string => `a folder with a long name, for the manifest/${"x".repeat(90)}/${10_000 + i}`;

const headerOf = (bytes: Bytes) => vaultHeader.decode(bytes, { source: "vault" });

/** A copy with one bit of its manifest flipped. */
function damaged(bytes: Bytes, at = 5000): Bytes {
  const copy = bytes.slice();
  const offset = headerOf(copy).manifestOffset + at;
  copy[offset] = (copy[offset] as number) ^ 1;
  return copy;
}

/** A context that logs reads and the moment when the key is derived. */
function tracedContext(engine: Engine, log: string[]): OpenContext {
  const argon2id: Engine["argon2id"] = async (password, parameters) => {
    const key = await rememberingKeys(engine).argon2id(password, parameters);
    log.push("key");
    return key;
  };
  const traced = new Proxy(engine, {
    get(target, name) {
      if (name === "argon2id") return argon2id;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return vaultContext(traced, PASSWORD);
}

describe.each([
  ["native", await nativeEngine()],
  ["portable", portableEngine()],
] as const)("a long manifest, %s engine", (_, base) => {
  const engine = rememberingKeys(base);
  let encrypted: Bytes;
  let protectedBytes: Bytes;
  let plain: Bytes;

  async function build(options: { readonly password?: string; readonly parityPercent?: number }): Promise<Bytes> {
    const vault = new TestVault({ engine, layout: "rewrite" });
    await vault.create({ level: 3, bounds: { min: 4096, avg: 8192, max: 65_536 } }, options);
    await vault.add(
      Array.from({ length: COUNT }, (_, i) => ({ kind: "directory" as const, path: nameOf(i), label: "made up" })),
    );
    return vault.bytes;
  }

  beforeAll(async () => {
    encrypted = await build({ password: PASSWORD });
    protectedBytes = await build({ password: PASSWORD, parityPercent: 20 });
    plain = await build({});
    expect(headerOf(encrypted).manifestLength).toBeGreaterThan(1 << 20);
  });

  it("is read once, while the key is derived", async () => {
    const log: string[] = [];
    const source = countingSource(memorySource(encrypted, "long"));
    const read = source.read.bind(source);
    source.read = (offset, byteLength, options) => {
      log.push(byteLength > 1 << 20 ? "manifest" : "short");
      return read(offset, byteLength, options);
    };
    const archive = await openAerovault(source, tracedContext(base, log));
    expect(log).toEqual(["short", "short", "manifest", "key"]);
    expect(archive.entries.map(({ path }) => path).slice(-2)).toEqual([nameOf(COUNT - 2), nameOf(COUNT - 1)]);
  });

  it.each(["encrypted", "plain"] as const)("%s: the bytes of the source stay unchanged", async (lane) => {
    const bytes = lane === "plain" ? plain : encrypted;
    const before = bytes.slice();
    const archive = await openAerovault(memorySource(bytes, "long"), vaultContext(engine, PASSWORD));
    expect(archive.entries.length).toBeGreaterThanOrEqual(COUNT);
    expect(equalBytes(bytes, before)).toBe(true);
  });

  it("is refused if it is damaged, and the source stays unchanged", async () => {
    const bytes = damaged(encrypted);
    const before = bytes.slice();
    const opening = openAerovault(memorySource(bytes, "long"), vaultContext(engine, PASSWORD));
    await expect(opening).rejects.toMatchObject({ code: "integrity/aerovault.manifest" });
    expect(equalBytes(bytes, before)).toBe(true);
  });

  it.each([0, 11, 12, 5000, -1])("is healed by parity with damage at byte %i", async (at) => {
    const { manifestOffset, manifestLength } = headerOf(protectedBytes);
    const place = at < 0 ? manifestLength + at : at;
    const source = memorySource(damaged(protectedBytes, place), "long");
    const archive = await openAerovault(source, vaultContext(engine, PASSWORD));
    expect(archive.warnings).toMatchObject([{ code: "integrity/aerovault.healed" }]);
    expect(archive.entries.length).toBeGreaterThanOrEqual(COUNT);
    const [part] = archive.vault.healed;
    expect(
      equalBytes(
        part?.bytes ?? new Uint8Array(),
        protectedBytes.subarray(manifestOffset, manifestOffset + manifestLength),
      ),
    ).toBe(true);
  });

  it("reports that it cannot be read, and a wrong password before that", async () => {
    const failing = (): ReturnType<typeof memorySource> => {
      const source = memorySource(encrypted, "long");
      const read = source.read.bind(source);
      source.read = (offset, byteLength, options) =>
        byteLength > 1 << 20 ? Promise.reject(new Error("gone")) : read(offset, byteLength, options);
      return source;
    };
    await expect(openAerovault(failing(), vaultContext(engine, PASSWORD))).rejects.toThrow("gone");
    const wrong = openAerovault(failing(), vaultContext(engine, "another password"));
    await expect(wrong).rejects.toMatchObject({ code: "usage/password.wrong" });
  });
});
