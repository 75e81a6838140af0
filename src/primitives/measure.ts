import type { Bytes } from "../base/bytes.ts";
import { lz4Bound } from "./compress/lz4.ts";
import type { Engine, EngineEntry, HasherAlgorithm } from "./engine.ts";

export interface MeasureOptions {
  /** How long each primitive runs. */
  readonly milliseconds?: number;
}

/** A primitive, its implementation, and how fast one thread of it just ran. */
export interface Measurement extends EngineEntry {
  readonly bytesPerSecond: number;
}

/** Small enough for the cache, large enough that the overhead of a call does not count. */
const PIECE_BYTES = 1 << 18;

/** How to run each primitive on bytes, by its name in the table. */
const PROBES: Readonly<Record<string, (engine: Engine) => Promise<(bytes: Bytes) => unknown>>> = {
  sha256: probeDigest("sha256"),
  blake3: probeDigest("blake3"),
  crc32: async (engine) => (bytes) => engine.crc32(bytes),
  zstd: probeZstd,
  lz4: probeLz4,
  quantizer: probeQuantizer,
  sha512: probeDigest("sha512"),
  aes: probeAes,
  "aes-gcm-siv": probeGcmSiv,
  gear: probeGear,
  "reed-solomon": probeReedSolomon,
  sha1: probeDigest("sha1"),
  "aes-blocks": probeAesBlocks,
  "chacha20-poly1305": probeChacha,
};

/** Runs every primitive for a moment on the calling thread. */
export async function measureEngine(engine: Engine, options: MeasureOptions = {}): Promise<Measurement[]> {
  const milliseconds = options.milliseconds ?? 60;
  const rows: Measurement[] = [];
  for (const { primitive } of engine.entries) {
    const probe = Object.hasOwn(PROBES, primitive) ? await PROBES[primitive]?.(engine) : undefined;
    if (probe === undefined) continue;
    const bytesPerSecond = await measure(probe, milliseconds);
    // Ask again: only now is it certain which implementation loaded.
    const implementation = engine.entries.find((entry) => entry.primitive === primitive)?.implementation ?? "none";
    rows.push({ primitive, implementation, bytesPerSecond });
  }
  return rows;
}

function probeDigest(algorithm: HasherAlgorithm): (engine: Engine) => Promise<(bytes: Bytes) => unknown> {
  return async (engine) => {
    const hasher = await engine.hasher(algorithm);
    return (bytes) => hasher.update(bytes);
  };
}

/** Decodes a frame as long as the piece: files are decoded far more often than written. */
async function probeZstd(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const content = new Uint8Array(PIECE_BYTES);
  for (let i = 0; i < PIECE_BYTES; i++) content[i] = 0x30 + ((i * 2654435761) >>> 28); // sixteen letters: 2:1
  const frame = await engine.zstdCompress(content);
  return () => engine.zstdDecompress(frame, { maxBytes: PIECE_BYTES });
}

/** Decodes, as for zstd, in the blocks of 64 KiB that formats write. */
async function probeLz4(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const codec = await engine.lz4();
  const raw = Uint8Array.from({ length: 1 << 16 }, (_, i) => 0x30 + ((Math.imul(i >> 3, 2654435761) + (i & 7)) >>> 27));
  const room = new Uint8Array(lz4Bound(raw.byteLength));
  const block = room.subarray(0, codec.encode(raw, room));
  return (bytes) => {
    for (let at = 0; at < bytes.byteLength; at += raw.byteLength) codec.decode(block, raw, { source: "engine" });
  };
}

/** Decodes Q4_0, the most common type of shared weights. Its rate counts the floats. */
async function probeQuantizer(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const quantizer = await engine.quantizer();
  const floats = new Float32Array(PIECE_BYTES / 4);
  const blocks = new Uint8Array((floats.length / 32) * 18).fill(0x35);
  return () => quantizer.decode("Q4_0", blocks, floats);
}

/** Opens segments of 64 KiB, as encrypted files have them. */
async function probeAes(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const key = await (await engine.aes()).gcm(new Uint8Array(32));
  const nonce = new Uint8Array(12);
  const plain = new Uint8Array(1 << 16);
  const sealed = await key.seal(nonce, plain, nonce);
  return async (bytes) => {
    for (let at = 0; at < bytes.byteLength; at += plain.byteLength) await key.open(nonce, sealed, nonce);
  };
}

/** Opens one block of a vault. */
async function probeGcmSiv(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const key = await engine.aesGcmSiv(new Uint8Array(32));
  const nonce = new Uint8Array(12);
  const sealed = key.seal(nonce, new Uint8Array(PIECE_BYTES), nonce);
  return (bytes) => key.open(nonce, sealed, nonce, bytes);
}

/** Enciphers counter blocks, as for entries of older vaults. */
async function probeAesBlocks(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const blocks = await engine.aesBlocks(new Uint8Array(32));
  return (bytes) => blocks.encrypt(bytes);
}

/** Opens one chunk of an older vault. */
async function probeChacha(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const key = await engine.chacha20Poly1305(new Uint8Array(32));
  const nonce = new Uint8Array(12);
  const sealed = key.seal(nonce, new Uint8Array(PIECE_BYTES), nonce);
  return () => key.open(nonce, sealed, nonce);
}

/** Cuts the way vaults do by default. */
async function probeGear(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const table = BigUint64Array.from({ length: 256 }, (_, i) => BigInt.asUintN(64, BigInt(i + 1) ** 17n));
  const bounds = { minBytes: 1 << 18, averageBytes: 1 << 20, maxBytes: 1 << 22 };
  const chunker = await engine.gear({ table, step: "shift", ...bounds });
  return (bytes) => chunker.push(bytes);
}

/** Parity of 15 %: two shards for thirteen; its rate counts the data. */
async function probeReedSolomon(engine: Engine): Promise<(bytes: Bytes) => unknown> {
  const code = await engine.reedSolomon(13, 2);
  const shardBytes = Math.floor(PIECE_BYTES / 13);
  const parity = [new Uint8Array(shardBytes), new Uint8Array(shardBytes)];
  return (bytes) => {
    const shards = Array.from({ length: 13 }, (_, i) => bytes.subarray(i * shardBytes, (i + 1) * shardBytes));
    code.encode(shards, parity);
  };
}

async function measure(probe: (bytes: Bytes) => unknown, milliseconds: number): Promise<number> {
  const bytes = new Uint8Array(PIECE_BYTES).fill(0x5a);
  await run(probe, bytes, milliseconds / 3); // warms up: the code is compiled after this
  return run(probe, bytes, milliseconds);
}

async function run(probe: (bytes: Bytes) => unknown, bytes: Bytes, milliseconds: number): Promise<number> {
  const start = performance.now();
  let elapsed = 0;
  let byteLength = 0;
  do {
    await probe(bytes);
    byteLength += bytes.byteLength;
    elapsed = performance.now() - start;
  } while (elapsed < milliseconds);
  return (byteLength / elapsed) * 1000;
}
