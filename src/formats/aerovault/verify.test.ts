import { describe, expect, it } from "vitest";
import { type CraftOptions, craftVault, VAULT_PASSWORD } from "../../../test/builders/crafted-vault.ts";
import { vaultContext } from "../../../test/builders/known-vaults.ts";
import { quickEngine } from "../../../test/builders/sealed-apr.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { VerifyLevel } from "../../model/format.ts";
import { type Report, verify } from "../../operations/verify.ts";
import { aerovault } from "./index.ts";
import type { ChunkRecord, Manifest } from "./manifest/records.ts";
import { entryList } from "./manifest/records.ts";
import { openAerovault } from "./open.ts";
import { reader } from "./read.ts";

const engine = quickEngine();
const FILES = [
  { path: "a", chunks: [encodeUtf8("first chunk"), encodeUtf8("second chunk")] },
  { path: "b", chunks: [encodeUtf8("second chunk"), encodeUtf8("of its own")] },
];
/** Length of the first stored block: prefix, nonce, text, tag. */
const FIRST_BLOCK = 8 + 12 + 11 + 16;

async function check(bytes: Bytes, level: VerifyLevel = "full"): Promise<Report> {
  const container = await openAerovault(memorySource(bytes, "vault"), vaultContext(engine, VAULT_PASSWORD));
  return verify({ container, format: aerovault, reader, notes: [] }, { level, engine });
}

async function spoilt(offsets: readonly number[], options: CraftOptions = {}): Promise<Bytes> {
  const bytes = await craftVault(FILES, options);
  for (const offset of offsets) bytes[offset] = (bytes[offset] as number) ^ 1;
  return bytes;
}

describe("verifyAerovault()", () => {
  it("counts the checked parts", async () => {
    const report = await check(await spoilt([]));
    expect(report).toMatchObject({ ok: true, findings: [], checked: { files: 2, blocks: 3 } });
    expect(report.checked["bytes"]).toBe(FIRST_BLOCK + 48 + 46);
  });

  it("finds every damaged block, and names the files that need it", async () => {
    const { ok, findings } = await check(await spoilt([1024, 1024 + FIRST_BLOCK + 20]));
    expect(ok).toBe(false);
    expect(findings).toMatchObject([
      { severity: "error", code: "integrity/aerovault.prefix", name: "a", at: { offset: 1024 }, hint: 'Part of "a"' },
      {
        severity: "error",
        code: "integrity/aerovault.cipher-hash",
        at: { offset: 1024 + FIRST_BLOCK },
        hint: 'Part of "a", "b"',
      },
    ]);
  });

  it("does not read stored bytes below the full level", async () => {
    const bytes = await spoilt([1024]);
    expect(await check(bytes, "quick")).toMatchObject({ ok: true, findings: [], checked: { files: 2 } });
    expect((await check(bytes, "control")).checked).not.toHaveProperty("blocks");
  });

  it("finds what a comparison of stored bytes cannot: a block with another number, a wrong length", async () => {
    const edit = (change: Partial<ChunkRecord>) => (manifest: Manifest) => {
      const [[id, record]] = [...manifest.chunks] as [[string, ChunkRecord]];
      return { ...manifest, chunks: new Map([...manifest.chunks, [id, { ...record, ...change }]]) };
    };
    const renumbered = await check(await spoilt([], { manifest: edit({ blockIndex: 9 }) }));
    expect(renumbered.findings).toMatchObject([{ code: "integrity/aerovault.tag", name: "a" }]);
    const longer = await check(await spoilt([], { manifest: edit({ plaintextLen: 12 }) }));
    expect(longer.findings).toMatchObject([{ code: "integrity/aerovault.frame", name: "a" }]);
    const huge = await check(await spoilt([], { manifest: edit({ plaintextLen: 2 ** 40 }) }));
    expect(huge.findings.map(({ code }) => code)).toEqual([
      "limit/aerovault.chunk-bytes",
      "limit/aerovault.chunk-bytes",
    ]);
  });

  it("two blocks that were swapped together with their hashes fail to authenticate", async () => {
    const swap = (manifest: Manifest): Manifest => {
      const [[one, a], [other, b]] = [...manifest.chunks] as [[string, ChunkRecord], [string, ChunkRecord]];
      const placed = ({ dataOffset, blockLen, plaintextLen, compressedLen, cipherHash }: ChunkRecord) => {
        return { dataOffset, blockLen, plaintextLen, compressedLen, cipherHash };
      };
      return {
        ...manifest,
        chunks: new Map([...manifest.chunks, [one, { ...a, ...placed(b) }], [other, { ...b, ...placed(a) }]]),
      };
    };
    const { ok, findings } = await check(await spoilt([], { manifest: swap }));
    expect(ok).toBe(false);
    expect(findings.filter(({ code }) => code === "integrity/aerovault.tag")).toHaveLength(2);
  });

  it("notes unused chunks, and checks them too", async () => {
    const manifest = (found: Manifest): Manifest => ({
      ...found,
      entries: entryList(found.entries.records().slice(0, 1)),
    });
    const bytes = await spoilt([1024 + FIRST_BLOCK + 48 + 30], { manifest });
    const { findings } = await check(bytes);
    expect(findings).toMatchObject([
      { severity: "note", code: "integrity/aerovault.unreferenced", message: "46 stored bytes belong to no entry" },
      { severity: "error", code: "integrity/aerovault.cipher-hash", hint: "No entry uses this chunk" },
    ]);
  });

  it("finds entries without their chunks at every level", async () => {
    const manifest = (found: Manifest): Manifest => ({ ...found, chunks: new Map([...found.chunks].slice(0, 2)) });
    const { findings } = await check(await spoilt([], { manifest }), "quick");
    expect(findings).toMatchObject([{ severity: "error", code: "format/aerovault.chunk", name: "b" }]);
  });
});
