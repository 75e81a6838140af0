import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { buildApr } from "../../../../test/builders/apr.ts";
import { buildAprender } from "../../../../test/builders/apr-layouts.ts";
import { READERS, writerById } from "../../../../test/builders/loaded-formats.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { SourceError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Opened } from "../../../model/format.ts";
import { openSource } from "../../../open.ts";
import type { ConversionOptions } from "../../../operations/convert/content.ts";
import { type Conversion, prepareConversion, writeConversion } from "../../../operations/convert.ts";
import { directoryOutput } from "../../../platform/node/files/directory.ts";
import { openTarget } from "../../../platform/node/targets.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import { portableEngine } from "../../../primitives/portable.ts";

const engine = portableEngine();
const METADATA = '{"apr_version":"2.0.0","model_type":"t","architecture":{}}';

/** A shard of one tensor of the given name; `fill` distinguishes models that look the same. */
function shard(name: string, fill: number, { byteLength = 100, metadata = METADATA } = {}): Bytes {
  return buildApr({ flags: 0x0a, metadata, tensors: [{ name, data: new Uint8Array(byteLength).fill(fill) }] });
}

/** Of the bytes before the footer. */
const crcOf = (bytes: Bytes): number => crc32Javascript(bytes.subarray(0, -16), 0);
const wholeCrcOf = (bytes: Bytes): number => crc32Javascript(bytes, 0);

/** A manifest of shards that hold one tensor each, called "a", "b" and so on. */
function manifestOf(shards: readonly Bytes[], crc: (bytes: Bytes) => number = crcOf): Bytes {
  return encodeUtf8(
    JSON.stringify({
      apr_version: "2.0.0",
      sharded: true,
      shard_count: shards.length,
      shards: shards.map((bytes, i) => ({ file: `s-${i}.apr`, size: bytes.byteLength, crc32: crc(bytes) })),
      tensor_shard_map: Object.fromEntries(shards.map((_, i) => [String.fromCharCode(97 + i), i])),
    }),
  );
}

/** Opens a set that is not local, as from a server. */
function openFar(manifest: Bytes, shards: readonly Bytes[]): Promise<Opened> {
  const resolve = async (file: string) => {
    const bytes = shards[Number(/\d+/.exec(file)?.[0])];
    if (bytes === undefined) throw new SourceError("source/not-found", "none", { source: file });
    return memorySource(bytes, file);
  };
  return openSource(memorySource(manifest, "m.apr"), { engine, resolver: { name: "m.apr", resolve } });
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "tare-apr-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function openNear(directory: string, manifest: Bytes, shards: readonly Bytes[]): Promise<Opened> {
  writeFileSync(join(directory, "m.apr"), manifest);
  for (const [i, bytes] of shards.entries()) writeFileSync(join(directory, `s-${i}.apr`), bytes);
  const opened = await openTarget(join(directory, "m.apr"), { engine });
  onTestFinished(() => opened.container.close());
  return opened;
}

const prepare = (opened: Opened, options: Partial<ConversionOptions> = {}): Promise<Conversion> =>
  prepareConversion(opened, writerById("safetensors"), { name: "out.safetensors", formats: READERS, ...options });

const SOUND = [shard("a", 1), shard("b", 2)];
const MIXED = [shard("a", 1), shard("b", 9)];

describe("a set of shards that is converted", () => {
  it("is refused if a shard is from another model", async () => {
    await expect(prepare(await openFar(manifestOf(SOUND), MIXED))).rejects.toMatchObject({
      name: "IntegrityError",
      code: "integrity/apr.shard-crc",
      at: { source: "m.apr", path: "shards[1].crc32" },
    });
    await expect(prepare(await openNear(folder(), manifestOf(SOUND), MIXED))).rejects.toMatchObject({
      code: "integrity/apr.shard-crc",
    });
  });

  it("is refused if only the end of a remote shard shows it", async () => {
    const long = { byteLength: 200_000 };
    const stated = manifestOf([shard("a", 1, long), shard("b", 2, long)]);
    const opened = await openFar(stated, [shard("a", 1, long), shard("b", 9, long)]);
    await expect(prepare(opened)).rejects.toMatchObject({ code: "integrity/apr.shard-crc" });
  });

  it("is accepted if nothing of the foreign shard is used", async () => {
    const { tensorCount } = await prepare(await openFar(manifestOf(SOUND), MIXED), { include: ["a"] });
    expect(tensorCount).toBe(1);
    await expect(prepare(await openFar(manifestOf(SOUND), MIXED), { include: ["b"] })).rejects.toMatchObject({
      code: "integrity/apr.shard-crc",
    });
  });

  it("is refused if a shard says that it is another one, although older checksums agree", async () => {
    const numbered = (name: string, index: number): Bytes =>
      shard(name, 1, { metadata: METADATA.replace("}}", `},"shard":{"index":${index},"count":2}}`) });
    const shards = [numbered("a", 1), numbered("b", 0)];
    await expect(prepare(await openFar(manifestOf(shards, wholeCrcOf), shards))).rejects.toMatchObject({
      code: "format/apr.shard-number",
    });
  });

  it("is not published if a footer matches the manifest and the bytes do not", async () => {
    const forged = shard("b", 9);
    new DataView(forged.buffer).setUint32(forged.byteLength - 16, crcOf(SOUND[1] as Bytes), true);
    const directory = folder();
    const opened = await openNear(directory, manifestOf(SOUND), [SOUND[0] as Bytes, forged]);
    const writing = writeConversion(
      await prepare(opened, { allowLossy: "allow-lossy" }),
      directoryOutput(directory, "out.safetensors", { overwrite: "refuse" }),
      { engine },
    );
    await expect(writing).rejects.toMatchObject({ code: "integrity/apr.shard-crc" });
    expect(existsSync(join(directory, "out.safetensors"))).toBe(false);
  });

  it("is refused if opening found that the bytes of a shard do not match its footer", async () => {
    const forged = shard("b", 9);
    new DataView(forged.buffer).setUint32(forged.byteLength - 16, crcOf(SOUND[1] as Bytes), true);
    const far = (): Promise<Opened> => openFar(manifestOf(SOUND), [SOUND[0] as Bytes, forged]);
    for (const include of [undefined, ["*"], ["b"]]) {
      await expect(prepare(await far(), { include })).rejects.toMatchObject({ code: "integrity/apr.crc" });
    }
    expect(await prepare(await far(), { include: ["a"] })).toMatchObject({ tensorCount: 1 });
    expect(await prepare(await far(), { allowLossy: "allow-lossy" })).toMatchObject({ tensorCount: 2 });
  });

  it("is not published if a shard of another layout does not match the manifest", async () => {
    const wild = (value: number): Bytes =>
      buildAprender({ tensors: [{ name: "b", dtype: 0, shape: [1], bytes: Uint8Array.of(value, 0, 0, 0) }] });
    const stated = manifestOf([SOUND[0] as Bytes, wild(1)]);
    const directory = folder();
    const opened = await openNear(directory, stated, [SOUND[0] as Bytes, wild(2)]);
    const writing = writeConversion(
      await prepare(opened),
      directoryOutput(directory, "out.safetensors", { overwrite: "refuse" }),
      { engine },
    );
    await expect(writing).rejects.toMatchObject({ code: "integrity/apr.shard-crc" });
    expect(existsSync(join(directory, "out.safetensors"))).toBe(false);
  });

  it.each([
    ["of the bytes before the footer", crcOf],
    ["of whole files", wholeCrcOf],
  ])("is written if its shards have the checksums %s", async (_, crc) => {
    const directory = folder();
    const opened = await openNear(directory, manifestOf(SOUND, crc), SOUND);
    const conversion = await prepare(opened);
    expect(conversion.plan.notes).toEqual([]);
    await writeConversion(conversion, directoryOutput(directory, "out.safetensors", { overwrite: "refuse" }), {
      engine,
    });
    expect(existsSync(join(directory, "out.safetensors"))).toBe(true);
  });

  it("says which shards were compared by their footers alone", async () => {
    const { plan } = await prepare(await openFar(manifestOf(SOUND), SOUND));
    expect(plan.notes).toEqual([expect.stringContaining('"s-0.apr" and 1 more')]);
  });

  it("says of which shards the manifest has no checksum, near and far", async () => {
    const manifest = manifestOf(SOUND, (bytes) => (bytes === SOUND[1] ? (null as unknown as number) : crcOf(bytes)));
    const near = await prepare(await openNear(folder(), manifest, MIXED));
    expect(near.plan.notes).toEqual([expect.stringMatching(/"s-1\.apr" cannot be proven .* no CRC-32/)]);
    const far = await prepare(await openFar(manifest, MIXED));
    expect(far.plan.notes).toHaveLength(2);
  });
});
