import { describe, expect, it } from "vitest";
import { craftVault, VAULT_PASSWORD } from "../../../test/builders/crafted-vault.ts";
import { damage, exportBytes, repairBytes, scrubBytes, type VaultTools } from "../../../test/builders/damaged-vault.ts";
import { quickEngine } from "../../../test/builders/sealed-apr.ts";
import { fileInput, TestVault } from "../../../test/builders/vault.ts";
import { makeXorshift } from "../../../test/builders/vault-content.ts";
import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { parityRow } from "../../formats/aerovault/extensions/rows.ts";
import { vaultHeader } from "../../formats/aerovault/layout.ts";
import type { ChunkRecord, Manifest } from "../../formats/aerovault/manifest/records.ts";
import { parityGrid, planAvec } from "../../model/parity/avec.ts";

/** Faults that audits of the reference found in parity and repair. */

const engine = quickEngine();
const tools: VaultTools = { engine, password: VAULT_PASSWORD };
const FILES = [{ path: "a", chunks: [makeXorshift(1n, 5000)] }];

async function verdict(bytes: Bytes, how: VaultTools = tools, beside?: Bytes): Promise<unknown> {
  const repaired = await repairBytes(bytes, how, beside);
  if (!("bytes" in repaired)) return repaired;
  return { ...repaired.facts, fate: equalBytes(repaired.bytes, bytes) ? "unchanged" : "changed" };
}

/** Replaces numbers in every record. */
const withRecord =
  (change: Partial<ChunkRecord>) =>
  (manifest: Manifest): Manifest => ({
    ...manifest,
    chunks: new Map([...manifest.chunks].map(([id, record]) => [id, { ...record, ...change }])),
  });

describe("hostile parity and manifests", () => {
  it.each([
    ["data_offset near 2^53", { dataOffset: Number.MAX_SAFE_INTEGER - 3 }],
    ["block_len near 2^53", { blockLen: Number.MAX_SAFE_INTEGER }],
    ["a block behind the data", { dataOffset: 5000 }],
  ])("%s is reported by scrub and repair, and never read", async (_, change) => {
    const bytes = await craftVault(FILES, { manifest: withRecord(change) });
    const findings = await scrubBytes(bytes, tools);
    const isTold = "code" in findings || findings.some(({ code }) => code === "format/aerovault.block");
    expect(isTold, JSON.stringify(findings)).toBe(true);
    expect(await verdict(bytes)).toMatchObject({ state: "lost", lostFiles: ["a"], fate: "unchanged" });
  });

  it("a prefix of all ones is damage, reported and left alone if nothing heals it", async () => {
    const bytes = damage(await craftVault(FILES), [1024, 8, 0xff]);
    const [finding] = (await scrubBytes(bytes, tools)) as readonly { code: string }[];
    expect(finding).toMatchObject({ code: "integrity/aerovault.prefix" });
    expect(await verdict(bytes)).toMatchObject({ state: "lost", fate: "unchanged" });
  });

  it.each([
    [
      "a critical row",
      [{ ...parityRow("x", { offset: 0, length: 0 }), critical: true }],
      "unsupported/aerovault.extension",
    ],
    [
      "two rows of one id",
      [parityRow("x", { offset: 0, length: 0 }), parityRow("x", { offset: 0, length: 0 })],
      "format/aerovault.extension",
    ],
    [
      "a payload that is not there",
      [parityRow("error-correction.reed-solomon", { offset: 1, length: 99 })],
      "format/aerovault.extension",
    ],
  ])("%s: recovery refuses the vault too", async (_, extensions, code) => {
    const bytes = await craftVault(FILES, { extensions });
    expect(await verdict(bytes)).toEqual({ code });
    expect(await verdict(damage(bytes, [1100]))).toEqual({ code });
  });

  it.each([
    ["no data shards", [0, 2, 4096]],
    ["no parity shards", [10, 0, 4096]],
    ["shards of no length", [10, 2, 0]],
    ["shards of four gigabytes", [10, 2, 0xffff_ffff]],
    ["more shards than there can be", [65_535, 65_535, 4096]],
  ])("parity that claims %s allocates nothing and heals nothing", async (_, [k = 0, p = 0, s = 0]) => {
    const payload = new Uint8Array(9000);
    payload.set(encodeUtf8("AVEC"));
    const view = new DataView(payload.buffer);
    view.setUint16(4, 2, true);
    view.setUint16(6, k, true);
    view.setUint16(8, p, true);
    view.setUint32(10, s, true);
    view.setBigUint64(14, 0xffff_ffff_ffff_ffffn, true);
    const extensions = [parityRow("error-correction.reed-solomon", { offset: 0, length: payload.byteLength })];
    const bytes = damage(await craftVault(FILES, { extensions, payload }), [1100]);
    expect(await verdict(bytes)).toMatchObject({ state: "lost", fate: "unchanged" });
  });

  it("parity that would change a healthy block beside the damaged one heals nothing", async () => {
    const vault = new TestVault({ engine, layout: "rewrite" });
    await vault.create(
      { level: 3, bounds: { min: 4096, avg: 4096, max: 4096 } },
      { password: VAULT_PASSWORD, parityPercent: 50 },
    );
    await vault.add([fileInput("a", makeXorshift(5n, 300_000))]);
    const { extensionPayloadOffset: at, dataLength } = vaultHeader.decode(vault.bytes, { source: "vault" });
    const plan = planAvec(parityGrid(50), dataLength);
    // A parity byte far from the damage, and the matching checksums of both parity shards.
    const forged = damage(
      vault.bytes,
      [at + plan.parityAt + plan.shardBytes - 100],
      [at + plan.parityAt + 2 * plan.shardBytes - 100],
    );
    for (const i of [0, 1]) {
      const shard = forged.slice(
        at + plan.parityAt + i * plan.shardBytes,
        at + plan.parityAt + (i + 1) * plan.shardBytes,
      );
      forged.set((await engine.digest("blake3", shard)).subarray(0, 16), at + plan.paritySumsAt + 16 * i);
    }
    const damaged = damage(forged, [1024 + 20]);
    expect(await verdict(damaged)).toMatchObject({ state: "lost", fate: "unchanged" });
  });

  it("reserved bytes of a header from a sidecar are checked too", async () => {
    const bytes = await craftVault(FILES);
    const sidecar = await exportBytes(bytes, tools);
    expect(await verdict(damage(bytes, [200]), tools, sidecar)).toMatchObject({ header: "sidecar" });
    const forged = concatBytes([damage(sidecar, [30], [30 + 272], [30 + 544])]);
    expect(await repairBytes(damage(bytes, [200]), tools, forged).catch(() => ({ code: "refused" }))).toHaveProperty(
      "code",
    );
  });

  it("a header that claims more than the file can hold is refused, not filled up with zeros", async () => {
    const bytes = await craftVault(FILES, {
      lane: "plain",
      header: (values) => ({ ...values, extensionPayloadLength: 2 ** 50 }),
    });
    expect(await verdict(bytes, { engine })).toEqual({ code: "format/aerovault.section" });
  });
});
