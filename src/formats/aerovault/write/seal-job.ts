import { type Bytes, Scratch } from "../../../base/bytes.ts";
import type { Source, SourceDescriptor } from "../../../bytes/source.ts";
import type { GearRule } from "../../../primitives/chunking/gear.ts";
import { type RandomBytes, secureRandom } from "../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { VaultCipher } from "../framing.ts";
import type { VaultKeys } from "../keys.ts";
import { BlockSealer, maxStoredBytes, type SealedBlock } from "./block-sealer.ts";
import { ChunkCutter } from "./chunk-cutter.ts";
import { adaptiveCompressor, type Compress, referenceCompressor } from "./compression.ts";
import type { ExpectedRun } from "./draft.ts";
import { type ClaimMemory, IdClaims } from "./id-claims.ts";
import { type SharedTail, takeTail } from "./space.ts";

/** How the chunks of one vault are sealed. Structured-clonable. */
export interface SealSetup {
  readonly keys: VaultKeys;
  readonly level: number;
  /** "adaptive": the level where it pays; "reference": probe and level exactly as the reference has them. */
  readonly compression: "adaptive" | "reference";
  readonly gear: GearRule;
}

/** What is to be sealed: chunks that are cut already, or small files that become a pack. */
export type SealWork =
  | { readonly kind: "bytes"; readonly bytes: Bytes; readonly lengths: readonly number[] }
  | {
      readonly kind: "range";
      readonly descriptor: SourceDescriptor;
      readonly offset: number;
      readonly lengths: readonly number[];
    }
  | { readonly kind: "pack"; readonly files: readonly SourceDescriptor[]; readonly byteLength: number };

/** One job for a thread of its own. */
export interface SealRequest {
  readonly setup: SealSetup;
  /** The first block that is sealed gets this index, the others those behind it. */
  readonly firstIndex: number;
  /** Which chunks need not be sealed; all are where absent. */
  readonly claims?: ClaimMemory | undefined;
  /** Where given, the job writes its blocks itself. */
  readonly output?: SealOutput | undefined;
  readonly work: SealWork;
}

/** The end of a draft's file, for any thread of the process. */
export interface SealOutput {
  readonly descriptor: number;
  readonly tail: SharedTail;
  /** Shown in errors. */
  readonly label: string;
  /** What the file must have before every write. */
  readonly expected: readonly ExpectedRun[];
}

/** All chunks of the work, and the blocks of those that were not known. */
export interface SealResult {
  readonly ids: readonly string[];
  readonly lengths: readonly number[];
  readonly blocks: readonly SealedBlock[];
  /** The blocks, one behind the other, each with its length prefix: their bytes, or where the job wrote them. */
  readonly stored: Bytes | number;
}

/** What a job needs from the thread it runs on. */
export interface SealHost {
  readonly engine: Engine;
  readonly random?: RandomBytes | undefined;
  readonly compress?: Compress | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** True for chunks that the vault has; only where the records are at hand. */
  readonly isKnown?: ((id: string) => boolean) | undefined;
  open(descriptor: SourceDescriptor): Promise<Source>;
  /** Reads a whole small file, and refuses one that changes meanwhile; by `open` where absent. */
  readWhole?: ((descriptor: SourceDescriptor, into: Bytes) => void) | undefined;
  /** Writes to an open file that still has what is expected; where absent, `output` is not used. */
  writeAt?: ((output: SealOutput, bytes: Bytes, offset: number) => void) | undefined;
  /** Memory that stays from job to job; new memory costs as much as what is done with it. */
  readonly scratch?: Scratch | undefined;
}

/** Reads, cuts, names, compresses, encrypts: everything between a file and its blocks. */
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

/** Writes the blocks where the caller said, or hands them over in memory of their own. */
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
