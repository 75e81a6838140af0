import { describe, expect, it } from "vitest";
import { craftVault, emptyManifest } from "../../../../test/builders/crafted-vault.ts";
import { vaultContext } from "../../../../test/builders/known-vaults.ts";
import { quickEngine } from "../../../../test/builders/sealed-apr.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { atOnce } from "../../../base/turns.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { avecHeader } from "../../../model/parity/avec.ts";
import type { VaultArchive } from "../archive.ts";
import { MANIFEST_PARITY } from "../extensions/rows.ts";
import { openAerovault } from "../open.ts";
import { encodeCheckedManifest } from "./checksum.ts";
import { decodeManifest } from "./codec.ts";

const engine = quickEngine();
const FILES = [{ path: "a", chunks: [encodeUtf8("one and two")], packOffset: 4, size: 3 }];

function openBytes(bytes: Bytes): Promise<VaultArchive> {
  return openAerovault(memorySource(bytes, "plain"), vaultContext(engine, undefined));
}

/** The manifest of FILES, with its checksum. */
async function checkedText(): Promise<string> {
  const { vault } = await openBytes(await craftVault(FILES, { lane: "plain" }));
  return new TextDecoder().decode(await encodeCheckedManifest(engine, vault.manifest));
}

describe("the checksum of a manifest", () => {
  it("is its last key, and matches the text", async () => {
    const text = await checkedText();
    expect(text).toMatch(/,"manifest_blake3":"[0-9a-f]{64}"\}$/);
    expect(await openBytes(await craftVault(FILES, { lane: "plain", text: () => text }))).toMatchObject({
      warnings: [],
    });
    // The next one is computed again: the old one is not encoded.
    const manifest = atOnce(decodeManifest(encodeUtf8(text), { source: "text" }));
    expect(new TextDecoder().decode(await encodeCheckedManifest(engine, manifest))).toBe(text);
  });

  it("detects a changed size, pack offset and name", async () => {
    const text = await checkedText();
    for (const [from, to] of [
      ['"size":3', '"size":2'],
      ['"pack_offset":4', '"pack_offset":5'],
      ['"pack_offset"', '"qack_offset"'],
      ['"path":"a"', '"path":"b"'],
    ] as const) {
      const changed = text.replace(from, to);
      expect(changed).not.toBe(text);
      await expect(openBytes(await craftVault(FILES, { lane: "plain", text: () => changed }))).rejects.toMatchObject({
        code: "integrity/aerovault.manifest",
      });
    }
  });

  it("must be the last key", async () => {
    const text = (await checkedText()).replace(/\}$/, ',"more":1}');
    await expect(openBytes(await craftVault(FILES, { lane: "plain", text: () => text }))).rejects.toMatchObject({
      code: "integrity/aerovault.manifest",
    });
  });

  it("if absent, a note says that nothing proves the manifest", async () => {
    const { warnings } = await openBytes(await craftVault(FILES, { lane: "plain" }));
    expect(warnings).toMatchObject([{ severity: "note", code: "integrity/aerovault.unproven" }]);
    expect((await openBytes(await craftVault([], { lane: "plain" }))).warnings).toEqual([]);
  });
});

describe("the checksums of the manifest's parity", () => {
  /** An AVEC payload of one shard for these bytes; its parity is zeros, which these tests do not read. */
  async function payloadFor(manifest: Bytes): Promise<Bytes> {
    const shard = new Uint8Array(4096);
    shard.set(manifest);
    const header = { magic: "AVEC", version: 2, dataShards: 10, parityShards: 1, shardLength: 4096 };
    const sums = [await engine.digest("blake3", shard), new Uint8Array(16)].map((sum) => sum.slice(0, 16));
    return concatBytes([
      avecHeader.encode({ ...header, totalLength: manifest.byteLength }),
      ...sums,
      new Uint8Array(4096),
    ]);
  }

  async function openWithParity(change: (text: string) => string): Promise<VaultArchive> {
    const plain = await openBytes(await craftVault(FILES, { lane: "plain" }));
    const { manifestOffset, manifestLength } = plain.vault.header.values;
    const payload = await payloadFor(await plain.vault.source.read(manifestOffset, manifestLength));
    const row = { extensionId: MANIFEST_PARITY, algorithmId: "reed-solomon", algorithmVersion: 1, critical: false };
    const extensions = [{ ...row, offset: 0, length: payload.byteLength, extra: new Map() }];
    return openBytes(await craftVault(FILES, { lane: "plain", extensions, payload, text: change }));
  }

  it("prove it if they agree", async () => {
    expect(await openWithParity((text) => text)).toMatchObject({ warnings: [] });
  });

  it("refuse it if they do not", async () => {
    await expect(openWithParity((text) => text.replace('"size":3', '"size":2'))).rejects.toMatchObject({
      code: "integrity/aerovault.manifest",
    });
  });

  it("say nothing if they are for a text of another length", async () => {
    const { warnings } = await openWithParity((text) => `${text} `);
    expect(warnings).toMatchObject([{ code: "integrity/aerovault.unproven" }]);
  });
});

it("a manifest without entries encodes and decodes with its checksum", async () => {
  const bytes = await encodeCheckedManifest(engine, emptyManifest("plain"));
  expect(atOnce(decodeManifest(bytes, { source: "text" })).checksum).toMatch(/^[0-9a-f]{64}$/);
});
