import type { Bytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, type Location, UnsupportedError } from "../../base/errors.ts";
import { encodeHex } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Output } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { safetensors } from "../../formats/safetensors/index.ts";
import { Metadata, stringValue } from "../../model/metadata.ts";
import type { Model } from "../../model/model.ts";
import { Tensor } from "../../model/tensor.ts";
import type { Engine } from "../../primitives/engine.ts";
import { DIGEST_BYTES, type IndexedTexts, type TextEmbedder } from "./embed-corpus.ts";
import { VectorTable } from "./rank.ts";

/**
 * What an index file holds. It is a SafeTensors file, so that other programs can read the vectors: `vectors` F32 [n,
 * d], `digests` U8 [n, 32], `probe` F32 [d], and metadata.
 */
export interface CorpusIndex extends IndexedTexts {
  readonly identity: IndexIdentity;
}

/** The metadata key by which an index is recognised; its value is the version of the layout. */
const VERSION_KEY = "tare.index";
const VERSION = "1";
/** The key is within this many bytes. */
const HEADER_START_BYTES = 256;
const SETTINGS_KEY = "settings";
/** SHA-256 over the bytes of `vectors`, `digests` and `probe`, because SafeTensors has no checksum. */
const SHA256_KEY = "sha256";

/** Writes an index as the only file of `output`. */
export async function writeCorpusIndex(index: CorpusIndex, output: Output, engine: Engine): Promise<void> {
  const { vectors, digests, identity } = index;
  const data = [bytesOf(vectors.values), digests, bytesOf(identity.probe)] as const;
  const metadata = new Metadata([
    { key: VERSION_KEY, value: stringValue(VERSION) },
    { key: SETTINGS_KEY, value: stringValue(identity.settings) },
    { key: SHA256_KEY, value: stringValue(await sha256(engine, data)) },
  ]);
  const tensors = [
    tensorOf({ name: "vectors", dtype: "F32", shape: [vectors.count, vectors.dimension] }, data[0]),
    tensorOf({ name: "digests", dtype: "U8", shape: [vectors.count, DIGEST_BYTES] }, data[1]),
    tensorOf({ name: "probe", dtype: "F32", shape: [identity.probe.length] }, data[2]),
  ];
  const writer = await safetensors.write?.();
  const plan = writer?.plan({ metadata, tensors, chain: [] }, { name: output.name });
  if (plan !== undefined) await writer?.write(plan, output, { engine });
}

/**
 * Reads a whole index. Throws `unsupported/index.foreign` for a file that is not an index, `format/index.damaged` and
 * `integrity/index.digest` for a damaged one. The source stays open.
 */
export async function readCorpusIndex(source: Source, engine: Engine): Promise<CorpusIndex> {
  const at = { source: source.label };
  const model = await openIndex(source, engine);
  const version = model.metadata.text(VERSION_KEY);
  if (version === undefined) throw foreign(at);
  if (version !== VERSION) {
    const message = `Cannot read the index: its version must be ${VERSION}, found ${JSON.stringify(version)}`;
    throw new UnsupportedError("unsupported/index.version", message, at, { hint: "Delete it, or update this tool" });
  }
  const [count, dimension] = shapesOf(model, at);
  const [vectors, digests, probe] = await Promise.all([
    model.tensor("vectors").bytes(),
    model.tensor("digests").bytes(),
    model.tensor("probe").bytes(),
  ]);
  const found = await sha256(engine, [vectors, digests, probe]);
  const stated = model.metadata.text(SHA256_KEY);
  if (found !== stated) {
    const message = `Cannot use the index: its SHA-256 must be ${stated ?? "stated"}, found ${found}`;
    throw new IntegrityError("integrity/index.digest", message, at, { hint: "Delete it: it will be made again" });
  }
  const table = new VectorTable(dimension, floatsOf(vectors));
  const identity = { settings: model.metadata.text(SETTINGS_KEY) ?? "", probe: floatsOf(probe) };
  return { digests, vectors: count === 0 ? VectorTable.allocate(dimension, 0) : table, identity };
}

async function openIndex(source: Source, engine: Engine): Promise<Model> {
  const at = { source: source.label };
  try {
    const container = await (await safetensors.read()).open(source, { engine, limits: {} });
    if (container.kind === "model") return container;
  } catch (error) {
    // A file that is not SafeTensors is not an index. Failed reads are another matter.
    if (!isTareError(error) || /^source\//.test(error.code)) throw error;
    throw (await namesIndex(source)) ? damaged(at, error) : foreign(at, error);
  }
  throw foreign(at);
}

/** An index that was cut short still has its key at the beginning of its header. */
async function namesIndex(source: Source): Promise<boolean> {
  const start = await source.read(0, Math.min(source.byteLength, HEADER_START_BYTES));
  return String.fromCharCode(...start).includes(`"${VERSION_KEY}"`);
}

function damaged(at: Location, cause: unknown): FormatError {
  const message = "Cannot use the index: it was cut short or damaged";
  return new FormatError("format/index.damaged", message, at, { hint: "Delete it: it will be made again", cause });
}

function foreign(at: Location, cause?: unknown): UnsupportedError {
  const message = "Cannot use the file as an index: it must be one that was made for a search";
  const hint = "Give the option index another name: this file is left as it is";
  return new UnsupportedError("unsupported/index.foreign", message, at, { hint, cause });
}

function shapesOf(model: Model, at: Location): readonly [count: number, dimension: number] {
  const shapes = new Map(model.tensors.map((tensor) => [tensor.name, `${tensor.dtype} ${tensor.shape.join("×")}`]));
  const [count = 0, dimension = 0] = model.tensors.find(({ name }) => name === "vectors")?.shape ?? [];
  const wanted = [
    ["vectors", `F32 ${count}×${dimension}`],
    ["digests", `U8 ${count}×${DIGEST_BYTES}`],
    ["probe", `F32 ${dimension}`],
  ] as const;
  for (const [name, shape] of wanted) {
    if (shapes.get(name) === shape) continue;
    const message = `Cannot use the index: "${name}" must be ${shape}, found ${shapes.get(name) ?? "none"}`;
    throw new FormatError(
      "format/index.shape",
      message,
      { ...at, path: name },
      { hint: "Delete it: it will be made again" },
    );
  }
  return [count, dimension];
}

async function sha256(engine: Engine, pieces: readonly Bytes[]): Promise<string> {
  const hasher = await engine.hasher("sha256");
  for (const piece of pieces) hasher.update(piece);
  return encodeHex(hasher.digest());
}

function tensorOf(facts: Pick<Tensor, "name" | "dtype" | "shape">, bytes: Bytes): Tensor {
  const { byteLength } = bytes;
  return new Tensor({ ...facts, byteLength, offset: 0 }, { source: () => memorySource(bytes, facts.name) });
}

/** Little-endian on every machine that runs JavaScript engines with WebAssembly. */
function bytesOf(values: Float32Array<ArrayBuffer>): Bytes {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Copies, because bytes that were read may be unaligned. */
function floatsOf(bytes: Bytes): Float32Array<ArrayBuffer> {
  return new Float32Array(bytes.slice().buffer);
}

/** Tells whether the same model made an index with the same settings. */
export interface IndexIdentity {
  /** The settings of the embedder: the limit of tokens, the mode, whether vectors are normalised. */
  readonly settings: string;
  /** The vector of a fixed sentence. Every matrix of the model contributes to it. */
  readonly probe: Float32Array<ArrayBuffer>;
}

/** Letters, digits, punctuation and an accent, so that different tokenizers give different vectors too. */
const PROBE = "The quick brown fox jumps over 1,234 lazy dogs; naïve Ångström?";

/**
 * Kernels of one model agree to about 1e-6 of a unit vector; float16 weights differ from float32 ones by 2e-4, and
 * other models by far more.
 */
const TOLERANCE = 2e-5;

/** Embeds the probe. */
export async function identifyEmbedder(embedder: TextEmbedder, settings: string): Promise<IndexIdentity> {
  const [vector = new Float32Array(embedder.dimension)] = await embedder.embed([PROBE]);
  return { settings, probe: Float32Array.from(vector) };
}

/** Whether vectors of the two can be in one index. */
export function sameIdentity(a: IndexIdentity, b: IndexIdentity): boolean {
  if (a.settings !== b.settings || a.probe.length !== b.probe.length) return false;
  let scale = 1;
  for (const value of a.probe) scale = Math.max(scale, Math.abs(value));
  return a.probe.every((value, i) => Math.abs(value - (b.probe[i] as number)) <= TOLERANCE * scale);
}
