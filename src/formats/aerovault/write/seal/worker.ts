import { type Bytes, Scratch } from "../../../../base/bytes.ts";
import type { Source, SourceDescriptor } from "../../../../bytes/source.ts";
import type { GearRule } from "../../../../primitives/chunking/gear.ts";
import { type RandomBytes, secureRandom } from "../../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../../primitives/engine.ts";
import { VaultCipher } from "../../cipher.ts";
import type { VaultKeys } from "../../keys.ts";
import { ChunkCutter } from "../chunking.ts";
import { type SharedTail, takeTail } from "../free-space.ts";
import type { ExpectedRun } from "../state.ts";
import {
  adaptiveCompressor,
  BlockSealer,
  type Compress,
  maxStoredBytes,
  referenceCompressor,
  type SealedBlock,
} from "./block-sealer.ts";

/** How the chunks of one vault are sealed. Structured-clonable. */
export interface SealSetup {
  readonly keys: VaultKeys;
  readonly level: number;
  /** "adaptive": the level only if it pays; "reference": probe and level exactly as in the reference. */
  readonly compression: "adaptive" | "reference";
  readonly gear: GearRule;
}

/** The input of a job: chunks that are cut already, or small files that become a pack. */
export type SealWork =
  | { readonly kind: "bytes"; readonly bytes: Bytes; readonly lengths: readonly number[] }
  | {
      readonly kind: "range";
      readonly descriptor: SourceDescriptor;
      readonly offset: number;
      readonly lengths: readonly number[];
    }
  | { readonly kind: "pack"; readonly files: readonly SourceDescriptor[]; readonly byteLength: number };

/** One job for a separate thread. */
export interface SealRequest {
  readonly setup: SealSetup;
  /** The index of the first sealed block; the others follow. */
  readonly firstIndex: number;
  /** Tells which chunks need no sealing; if absent, all are sealed. */
  readonly claims?: ClaimMemory | undefined;
  /** If given, the job writes its blocks itself. */
  readonly output?: SealOutput | undefined;
  readonly work: SealWork;
}

/** The end of a draft's file, for any thread of the process. */
export interface SealOutput {
  readonly descriptor: number;
  readonly tail: SharedTail;
  /** Shown in errors. */
  readonly label: string;
  /** The content that the file must have before every write. */
  readonly expected: readonly ExpectedRun[];
}

/** All chunks of the work, and the blocks of the new ones. */
export interface SealResult {
  readonly ids: readonly string[];
  readonly lengths: readonly number[];
  readonly blocks: readonly SealedBlock[];
  /** The blocks, one after the other, each with its length prefix: their bytes, or where the job wrote them. */
  readonly stored: Bytes | number;
}

/** What a job needs from the thread it runs on. */
export interface SealHost {
  readonly engine: Engine;
  readonly random?: RandomBytes | undefined;
  readonly compress?: Compress | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** True for chunks that the vault has; only on the thread that has the records. */
  readonly isKnown?: ((id: string) => boolean) | undefined;
  open(descriptor: SourceDescriptor): Promise<Source>;
  /** Reads a whole small file, and refuses one that changes meanwhile; if absent, `open` is used. */
  readWhole?: ((descriptor: SourceDescriptor, into: Bytes) => void) | undefined;
  /** Writes to an open file that still has the expected content; if absent, `output` is not used. */
  writeAt?: ((output: SealOutput, bytes: Bytes, offset: number) => void) | undefined;
  /** Memory that is reused from job to job: allocating it costs as much as the work in it. */
  readonly scratch?: Scratch | undefined;
}

/** Reads, cuts, hashes, compresses, encrypts: everything between a file and its blocks. */
export async function runSealJob(request: SealRequest, host: SealHost): Promise<SealResult> {
  const { setup, work } = request;
  const cipher = await VaultCipher.create(host.engine, setup.keys);
  try {
    const { bytes, lengths } = await readWork(work, setup, host);
    return await sealAll(request, host, { cipher, bytes, lengths });
  } finally {
    cipher.wipe();
  }
}

interface Loaded {
  readonly bytes: Bytes;
  readonly lengths: readonly number[];
}

async function readWork(work: SealWork, setup: SealSetup, host: SealHost): Promise<Loaded> {
  if (work.kind === "bytes") return work;
  if (work.kind === "pack") return readPack(work, setup, host);
  const byteLength = work.lengths.reduce((sum, length) => sum + length, 0);
  const source = await host.open(work.descriptor);
  try {
    const into = (host.scratch ?? new Scratch()).take("input", byteLength);
    return { bytes: await source.read(work.offset, byteLength, { into }), lengths: work.lengths };
  } finally {
    await source.close();
  }
}

async function readPack(
  { files, byteLength }: Extract<SealWork, { kind: "pack" }>,
  setup: SealSetup,
  host: SealHost,
): Promise<Loaded> {
  const bytes = (host.scratch ?? new Scratch()).take("input", byteLength);
  let position = 0;
  for (const file of files) {
    host.signal?.throwIfAborted();
    const size = lengthOf(file);
    const into = bytes.subarray(position, position + size);
    if (host.readWhole !== undefined) host.readWhole(file, into);
    else await readThrough(file, into, host);
    position += size;
  }
  const cutter = new ChunkCutter(await host.engine.gear(setup.gear));
  return { bytes, lengths: [...cutter.push(bytes), ...cutter.end()] };
}

async function readThrough(file: SourceDescriptor, into: Bytes, host: SealHost): Promise<void> {
  const source = await host.open(file);
  try {
    await source.read(0, into.byteLength, { into });
  } finally {
    await source.close();
  }
}

function lengthOf(descriptor: SourceDescriptor): number {
  return descriptor.kind === "blob" ? descriptor.blob.size : descriptor.byteLength;
}

async function sealAll(
  { setup, firstIndex, claims: memory, output }: SealRequest,
  host: SealHost,
  { cipher, bytes, lengths }: Loaded & { readonly cipher: VaultCipher },
): Promise<SealResult> {
  const sealer = new BlockSealer({
    engine: host.engine,
    cipher,
    compressor: compressorOf(setup, host),
    random: host.random ?? secureRandom,
  });
  const claims = memory === undefined ? undefined : new IdClaims(memory);
  const isNew = (id: string): boolean =>
    claims === undefined ? host.isKnown?.(id) !== true && !sealed.has(id) : claims.claim(id) === "yours";
  const sealed = new Set<string>();
  const ids: string[] = [];
  const blocks: SealedBlock[] = [];
  const room = (host.scratch ?? new Scratch()).take("output", bytes.byteLength + lengths.length * maxStoredBytes(0));
  let storedBytes = 0;
  let position = 0;
  for (const length of lengths) {
    host.signal?.throwIfAborted();
    const chunk = bytes.subarray(position, position + length);
    const id = sealer.chunkId(chunk);
    ids.push(id);
    if (isNew(id)) {
      const name = { id, blockIndex: firstIndex + blocks.length };
      const { block, stored } = await sealer.seal(chunk, name, room.subarray(storedBytes));
      sealed.add(id);
      blocks.push(block);
      storedBytes += stored.byteLength;
    }
    position += length;
    host.onProgress?.(length);
  }
  return { ids, lengths, blocks, stored: deliver(room.subarray(0, storedBytes), output, host) };
}

/** Writes the blocks to the output, or returns them in their own memory. */
function deliver(stored: Bytes, output: SealOutput | undefined, { writeAt }: SealHost): Bytes | number {
  if (output === undefined || writeAt === undefined || stored.byteLength === 0) return stored.slice();
  const offset = takeTail(output.tail, stored.byteLength);
  writeAt(output, stored, offset);
  return offset;
}

function compressorOf({ level, compression }: SealSetup, host: SealHost): ReturnType<typeof adaptiveCompressor> {
  const compress: Compress = host.compress ?? ((bytes, at) => host.engine.zstdCompress(bytes, { level: at }));
  return compression === "reference" ? referenceCompressor(compress, level) : adaptiveCompressor(compress, level);
}

/** At most half full, so that probing stays short. */
const LOAD = 2;
const LEAST_SLOTS = 1 << 12;
/** 64 MiB; a chunk without a slot is sealed twice at worst. */
const MOST_SLOTS = 1 << 23;
/** If this many neighbouring slots are full, the id is not stored. */
const LONGEST_PROBE = 64;

/** Memory that several threads share. */
export type ClaimMemory = BigInt64Array<SharedArrayBuffer>;

/**
 * Chunk ids that are stored or being sealed, shared by all threads, so that no chunk is compressed twice. It keeps 64
 * bits of each id, and two chunks may have the same. So "taken" is only a hint, and the thread that keeps the records
 * checks it.
 */
export class IdClaims {
  readonly memory: ClaimMemory;

  constructor(memory: ClaimMemory) {
    this.memory = memory;
  }

  /** Undefined if threads cannot share memory, as in most web pages. */
  static create(expected: number): IdClaims | undefined {
    if (typeof SharedArrayBuffer === "undefined") return undefined;
    let slots = LEAST_SLOTS;
    while (slots < expected * LOAD && slots < MOST_SLOTS) slots *= 2;
    return new IdClaims(new BigInt64Array(new SharedArrayBuffer(slots * 8)));
  }

  /** "yours" for the first caller, or if there is no room for the id; "taken" for all others. */
  claim(id: string): "yours" | "taken" {
    const mask = this.memory.length - 1;
    // Zero is a free slot.
    const key = BigInt.asIntN(64, BigInt(`0x${id.slice(0, 16)}`)) || 1n;
    let slot = Number.parseInt(id.slice(16, 24), 16) & mask;
    for (let probe = 0; probe < LONGEST_PROBE; probe++) {
      const before = Atomics.compareExchange(this.memory, slot, 0n, key);
      if (before === 0n) return "yours";
      if (before === key) return "taken";
      slot = (slot + 1) & mask;
    }
    return "yours";
  }
}
