import { beforeAll, describe, expect, it } from "vitest";
import {
  damage,
  exportBytes,
  readAll,
  repairBytes,
  scrubBytes,
  type VaultTools,
} from "../../../test/builders/damaged-vault.ts";
import { fileInput, TestVault } from "../../../test/builders/vault.ts";
import { makeXorshift } from "../../../test/builders/vault-content.ts";
import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { memorySink, memorySource } from "../../bytes/memory.ts";
import { VAULT_HEADER_BYTES } from "../../formats/aerocorrect/layout.ts";
import { vaultHeader } from "../../formats/aerovault/layout.ts";
import type { Finding } from "../../model/finding.ts";
import { parityGrid } from "../../model/parity/avec.ts";
import { nativeEngine } from "../../platform/node/engine/native.ts";
import { generateSidecar } from "../correct.ts";

const PASSWORD = "a password of tests";
const engine = await nativeEngine();
const SHORT = { level: 3, bounds: { min: 4096, avg: 8192, max: 65_536 } };
/** The longest chunk that begins in the first three tenths ends in a.bin, wherever the random key of a vault cuts. */
const FILES = { "a.bin": makeXorshift(1n, 150_000), "dir/b.bin": makeXorshift(2n, 15_000) };

/** Quick to open: the key of the password is derived once for all tests. */
async function makeVault(parityPercent?: number, password: string | undefined = PASSWORD): Promise<TestVault> {
  const vault = new TestVault({ engine, layout: "rewrite" });
  await vault.create(SHORT, {
    ...(password === undefined ? {} : { password }),
    ...(parityPercent === undefined ? {} : { parityPercent }),
  });
  await vault.add(Object.entries(FILES).map(([path, bytes]) => fileInput(path, bytes)));
  return vault;
}

let tools: VaultTools;
let embedded: Bytes;
let bare: Bytes;
let plain: Bytes;
let sidecar: Bytes;

beforeAll(async () => {
  const { rememberingKeys } = await import("../../../test/builders/vault.ts");
  tools = { engine: rememberingKeys(engine), password: PASSWORD };
  embedded = (await makeVault(20)).bytes;
  bare = (await makeVault()).bytes;
  const open = new TestVault({ engine, layout: "rewrite" });
  await open.create(SHORT, { parityPercent: 20 });
  await open.add(Object.entries(FILES).map(([path, bytes]) => fileInput(path, bytes)));
  plain = open.bytes;
  sidecar = await exportBytes(bare, tools);
});

const headerOf = (bytes: Bytes) => vaultHeader.decode(bytes, { source: "vault" });

/** Damages one byte in each of `count` shards of the data parity's first group. */
function inShards(bytes: Bytes, count: number): Bytes {
  const shard = Math.ceil(headerOf(bytes).dataLength / 10);
  return damage(bytes, ...Array.from({ length: count }, (_, i) => [1024 + 100 + i * shard] as const));
}

/** The report of a repair, or the code of its error; never the bytes, which would be unreadable in a test report. */
async function verdict(damaged: Bytes, how: VaultTools = tools, beside?: Bytes): Promise<unknown> {
  const repaired = await repairBytes(damaged, how, beside);
  if (!("bytes" in repaired)) return repaired;
  const fate = equalBytes(repaired.bytes, damaged) ? "unchanged" : "changed";
  return { ...repaired.facts, fate };
}

async function expectHealed(damaged: Bytes, original: Bytes, how: VaultTools = tools, beside?: Bytes): Promise<void> {
  const repaired = await repairBytes(damaged, how, beside);
  const facts = "bytes" in repaired ? repaired.facts : repaired;
  expect(facts).toMatchObject({ state: "damaged" });
  expect("bytes" in repaired && equalBytes(repaired.bytes, original)).toBe(true);
}

/** Compares the files without printing them. */
async function expectFiles(bytes: Bytes, how: VaultTools): Promise<void> {
  const files = await readAll(bytes, how);
  expect("code" in files ? files.code : [...files.keys()]).toEqual(Object.keys(FILES));
  for (const [path, content] of Object.entries(FILES)) {
    const found = "code" in files ? undefined : files.get(path);
    expect(found instanceof Uint8Array && equalBytes(found, content), path).toBe(true);
  }
}

describe("a vault with its own parity", () => {
  it("damage in two shards of a group is healed, and the file is as before", async () => {
    const damaged = inShards(embedded, 2);
    const [first] = (await scrubBytes(damaged, tools)) as readonly Finding[];
    expect(first).toMatchObject({ severity: "error", code: "integrity/aerovault.cipher-hash", name: "a.bin" });
    await expectHealed(damaged, embedded);
    expect(await scrubBytes(embedded, tools)).toEqual([]);
  });

  it("damage in three is not: nothing is written, and the lost files are named", async () => {
    const damaged = inShards(embedded, 3);
    expect(await verdict(damaged)).toMatchObject({ state: "lost", fate: "unchanged", lostFiles: ["a.bin"] });
  });

  it("damage of parity alone leaves scrub clean except for a warning, and repair renews it", async () => {
    const { extensionPayloadOffset, extensionPayloadLength } = headerOf(embedded);
    const damaged = damage(
      embedded,
      [extensionPayloadOffset + extensionPayloadLength / 2],
      [extensionPayloadOffset + 40],
    );
    const findings = await scrubBytes(damaged, tools);
    expect(findings).toMatchObject([{ severity: "warning", code: "integrity/aerovault.parity" }]);
    expect(await verdict(damaged)).toMatchObject({ damagedBlocks: 0, parity: "damaged" });
    await expectHealed(damaged, embedded);
  });

  it("one damaged parity shard and one damaged data shard are both healed", async () => {
    const { extensionPayloadOffset: at } = headerOf(embedded);
    await expectHealed(damage(embedded, [1200], [at + 32 + 16 * 12 + 50]), embedded);
  });

  it("a damaged manifest opens by its parity, with a warning; a wrong password still fails", async () => {
    const { manifestOffset } = headerOf(embedded);
    const damaged = damage(embedded, [manifestOffset + 40, 300]);
    await expectFiles(damaged, tools);
    expect(await scrubBytes(damaged, tools)).toMatchObject([{ severity: "error", code: "integrity/aerovault.healed" }]);
    expect(await readAll(damaged, { ...tools, password: "another password" })).toEqual({
      code: "usage/password.wrong",
    });
    await expectHealed(damaged, embedded);
  });

  it("heals manifest and blocks at once, and a length prefix like any other byte", async () => {
    await expectHealed(damage(embedded, [headerOf(embedded).manifestOffset], [1024]), embedded);
  });

  it("heals even if the head of the parity is damaged: lengths and the manifest imply its content", async () => {
    const { extensionPayloadOffset } = headerOf(embedded);
    await expectHealed(damage(embedded, [extensionPayloadOffset, 32], [1200]), embedded);
  });

  it("heals even if the checksums of many shards are lost with a block: proven blocks need none", async () => {
    const { extensionPayloadOffset } = headerOf(embedded);
    await expectHealed(damage(embedded, [extensionPayloadOffset + 32 + 32, 100], [1200]), embedded);
  });

  it("heals a block of ten shards even if the checksums of all of them are lost", async () => {
    const vault = new TestVault({ engine, layout: "rewrite" });
    // Files shorter than the shortest chunk, so that both are one block.
    const bounds = { min: 65_536, avg: 131_072, max: 262_144 };
    await vault.create({ level: 3, bounds }, { password: PASSWORD, parityPercent: 20 });
    const files = { "a.bin": makeXorshift(1n, 60_000), "dir/b.bin": makeXorshift(2n, 45_000) };
    await vault.add(Object.entries(files).map(([path, bytes]) => fileInput(path, bytes)));
    const { extensionPayloadOffset: at } = headerOf(vault.bytes);
    await expectHealed(damage(vault.bytes, [at + 32, 10 * 16], [1200]), vault.bytes);
    const two = damage(vault.bytes, [at + 32, 10 * 16], [1200], [30_000]);
    expect(await verdict(two)).toMatchObject({ state: "lost", fate: "unchanged", lostFiles: Object.keys(files) });
  });

  it.each([1, 2, 1000, 16_000])("heals a cut of %i bytes", async (count) => {
    await expectHealed(embedded.slice(0, -count), embedded);
  });

  it("finds every damaged byte of its list of extensions, and writes it again", async () => {
    const { extensionDirectoryOffset, extensionDirectoryLength } = headerOf(embedded);
    for (let i = 0; i < extensionDirectoryLength; i++) {
      const damaged = damage(embedded, [extensionDirectoryOffset + i, 1, 1]);
      const found = await scrubBytes(damaged, tools);
      expect("code" in found || found.some(({ severity }) => severity === "error"), `byte ${i}`).toBe(true);
      await expectHealed(damaged, embedded);
    }
  });

  it("cannot heal its header, and reports that first", async () => {
    for (const offset of [0, 10, 11, 20, 50, 90, 124, 136, 192, 194, 959, 970]) {
      expect(await verdict(damage(embedded, [offset, 1, 2])), `byte ${offset}`).toHaveProperty("code");
    }
  });
});

describe("a vault without encryption", () => {
  const open: VaultTools = { engine };
  it("is healed like any other", async () => {
    await expectHealed(inShards(plain, 2), plain, open);
    await expectHealed(plain.slice(0, -500), plain, open);
  });

  it("a damaged manifest that is still JSON is detected and healed", async () => {
    const { manifestOffset, manifestLength } = headerOf(plain);
    const text = new TextDecoder().decode(plain.slice(manifestOffset, manifestOffset + manifestLength));
    const damaged = damage(plain, [manifestOffset + text.indexOf('"size":150000') + 7, 1, 1]);
    await expectFiles(damaged, open);
    await expectHealed(damaged, plain, open);
  });

  it("has its header healed by a sidecar too, including the lane bit", async () => {
    const beside = await exportBytes(plain, open);
    for (const offset of [0, 10, 11, 20, 136, 194, 970]) {
      await expectHealed(damage(plain, [offset, 1, 1]), plain, open, beside);
    }
  });
});

describe("a vault with a sidecar", () => {
  it.each([
    ["magic", 0, 1],
    ["version", 10, 1],
    ["lane bit", 11, 1],
    ["another flag", 11, 2],
    ["salt", 20, 1],
    ["wrapped master key", 50, 1],
    ["wrapped MAC key", 90, 1],
    ["header length", 124, 1],
    ["data offset", 128, 1],
    ["data length", 136, 1],
    ["manifest offset", 144, 1],
    ["manifest length", 152, 1],
    ["directory offset", 160, 1],
    ["directory length", 168, 1],
    ["payload offset", 176, 1],
    ["payload length", 184, 1],
    ["wrapper version", 192, 2],
    ["first reserved byte", 194, 1],
    ["last reserved byte", 959, 1],
    ["MAC", 970, 1],
  ])("a damaged %s is refused without it and healed with it", async (_, offset, mask) => {
    const damaged = damage(bare, [offset, 1, mask]);
    expect(await verdict(damaged)).toHaveProperty("code");
    expect(await verdict(damaged, tools, sidecar)).toMatchObject({ header: "sidecar", parts: ["header"] });
    await expectHealed(damaged, bare, tools, sidecar);
  });

  it("heals a header that is completely gone", async () => {
    await expectHealed(damage(bare, [0, 1024]), bare, tools, sidecar);
  });

  it("heals a manifest that is completely gone, by the digest of the whole", async () => {
    const { manifestOffset, manifestLength } = headerOf(bare);
    await expectHealed(damage(bare, [manifestOffset, manifestLength]), bare, tools, sidecar);
  });

  it("the manifest of an earlier state is used only if the whole vault is of that state", async () => {
    const vault = await makeVault();
    const whole = vault.bytes;
    const before = await exportBytes(whole, tools);
    await vault.move("a.bin", "b.bin");
    const { manifestOffset } = headerOf(vault.bytes);
    // Only names changed: everything but the manifest is still the state that the sidecar was made of.
    await expectHealed(damage(vault.bytes, [manifestOffset + 50, 20]), whole, tools, before);
    await vault.add([fileInput("c.bin", makeXorshift(9n, 30_000))]);
    const later = headerOf(vault.bytes);
    expect(await verdict(damage(vault.bytes, [later.manifestOffset + 50, 20]), tools, before)).toEqual({
      code: "integrity/aerovault.manifest",
    });
  });

  it("heals header, manifest and blocks at once", async () => {
    const { manifestOffset } = headerOf(bare);
    await expectHealed(damage(bare, [3], [manifestOffset + 9], [5000, 100]), bare, tools, sidecar);
  });

  it.each([1, 2, 100, 1500])("heals a cut of %i bytes", async (count) => {
    await expectHealed(bare.slice(0, -count), bare, tools, sidecar);
  });

  it("with the right header, the error is a wrong password", async () => {
    const damaged = damage(bare, [0]);
    expect(await verdict(damaged, { ...tools, password: "another password" }, sidecar)).toEqual({
      code: "usage/password.wrong",
    });
  });

  it.each([
    ["one byte", [[20]]],
    ["two copies of its directory", [[30], [320]]],
    ["a byte of parity", [[15_000]]],
  ] as const)("heals blocks even if %s of the sidecar is damaged", async (_, places) => {
    await expectHealed(damage(bare, [2000]), bare, tools, damage(sidecar, ...places));
  });
});

describe("never worse than before", () => {
  it("a write to a damaged vault is refused, for a prefix too, so that parity never covers damage", async () => {
    const vault = await makeVault(20);
    for (const offset of [1024, 1500]) {
      const whole = vault.bytes;
      vault.bytes = damage(whole, [offset]);
      await expect(vault.mkdir("new")).rejects.toMatchObject({ code: expect.stringMatching(/^integrity\//) });
      await expectHealed(vault.bytes, whole);
      vault.bytes = whole;
    }
  });

  it("parity is not exported from a damaged vault, nor from one with a healed manifest", async () => {
    for (const offset of [1024, 1500, headerOf(embedded).manifestOffset + 20]) {
      await expect(exportBytes(damage(embedded, [offset]), tools)).rejects.toMatchObject({
        code: expect.stringMatching(/^integrity\/aerovault\./),
        hint: expect.stringContaining("vault repair"),
      });
    }
  });

  it("a sidecar of an earlier state does not hide the vault's own parity", async () => {
    const vault = new TestVault({ engine, layout: "rewrite" });
    await vault.create(SHORT, { password: PASSWORD, parityPercent: 20 });
    const seed = await exportBytes(vault.bytes, tools);
    await vault.add(Object.entries(FILES).map(([path, bytes]) => fileInput(path, bytes)));
    await expectHealed(damage(vault.bytes, [1500]), vault.bytes, tools, seed);
  });

  it("the sidecar of the file as a whole does not hide it either", async () => {
    const sink = memorySink();
    await generateSidecar(memorySource(embedded), sink, { engine, grid: parityGrid(15) });
    await sink.commit();
    await expectHealed(damage(embedded, [1500]), embedded, tools, sink.published);
  });

  it("a sidecar from before a password change cannot bring the old password back", async () => {
    const vault = await makeVault();
    const before = await exportBytes(vault.bytes, tools);
    await vault.passwd("another password");
    const { manifestOffset, manifestLength } = headerOf(vault.bytes);
    const damaged = damage(vault.bytes, [20]);
    const worse = damage(vault.bytes, [20], [manifestOffset, manifestLength]);
    for (const [bytes, password] of [damaged, worse].flatMap(
      (one) =>
        [
          [one, PASSWORD],
          [one, "another password"],
        ] as const,
    )) {
      const repaired = await verdict(bytes, { ...tools, password }, before);
      expect(repaired).not.toMatchObject({ state: "damaged" });
      expect(repaired).not.toMatchObject({ fate: "changed" });
    }
    await expectHealed(
      damaged,
      vault.bytes,
      { ...tools, password: "another password" },
      await exportBytes(vault.bytes, { ...tools, password: "another password" }),
    );
  });

  it.each(["rewrite", "update"] as const)(
    "a header of an earlier state does not replace a later one (%s)",
    async (layout) => {
      const vault = await makeVault();
      const before = await exportBytes(vault.bytes, tools);
      await vault.edit(async (edit) => edit.tree.makeDirectory("later", edit.now), undefined, layout);
      const { manifestOffset } = headerOf(vault.bytes);
      for (const damaged of [damage(vault.bytes, [970]), damage(vault.bytes, [970], [manifestOffset + 30, 40])]) {
        const repaired = await verdict(damaged, tools, before);
        expect(repaired).not.toMatchObject({ state: "damaged" });
        expect(repaired).not.toMatchObject({ fate: "changed" });
      }
    },
  );

  it("repair changes nothing in a whole vault, with any sidecar", async () => {
    for (const beside of [undefined, sidecar]) {
      expect(await verdict(bare, tools, beside)).toMatchObject({ state: "intact", fate: "unchanged" });
    }
    const longer = concatBytes([embedded, new Uint8Array(16)]);
    expect(await verdict(longer)).toMatchObject({ state: "intact", fate: "unchanged" });
  });
});

it("sidecars of vaults begin with a window as long as the header of a vault", () => {
  expect(VAULT_HEADER_BYTES).toBe(vaultHeader.byteLength);
});
