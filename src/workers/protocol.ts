import type { Bytes } from "../base/bytes.ts";
import type { ErrorJson } from "../base/errors.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import type { EncoderImage, SentenceGroup } from "../embedding/encoder/encoder-thread.ts";
import type { SealRequest, SealResult } from "../formats/aerovault/write/seal-job.ts";
import type { DType } from "../model/dtype.ts";
import type { HealedGroup } from "../model/parity/heal.ts";
import type { HealRequest, ParityRequest } from "../operations/correct/jobs.ts";
import type { ExtractRequest } from "../operations/vault/extract-job.ts";
import type { DigestAlgorithm, HashExtent, QuantizedRange, Subtrees } from "../primitives/engine.ts";
import type { QuantType } from "../primitives/quant/quantizer.ts";

/** Both sides are built from the same sources; a worker script of another build is refused, not misunderstood. */
export const PROTOCOL_VERSION = 4;

/** What workers can be asked to do. Requests and results are structured-clonable. */
export interface JobTable {
  /** Hashes a run of a source that the worker opens itself. */
  readonly "digest-range": {
    readonly request: {
      readonly algorithm: DigestAlgorithm;
      readonly descriptor: SourceDescriptor;
      readonly offset: number;
      readonly byteLength: number;
    };
    readonly result: Bytes;
  };
  /** Hashes many runs of a source in one pass; the digests come back one behind the other. */
  readonly "digest-extents": {
    readonly request: {
      readonly algorithm: DigestAlgorithm;
      readonly descriptor: SourceDescriptor;
      /** Offset and length in turn: a million pages are one array, not a million objects. */
      readonly extents: Float64Array<ArrayBuffer>;
      readonly subtrees?: Subtrees | undefined;
    };
    readonly result: Bytes;
  };
  /** Blocks of a tensor whose stored elements the worker reads itself. */
  readonly "quantize-range": {
    readonly request: {
      readonly type: QuantType;
      readonly dtype: DType;
      readonly shape: readonly number[];
      readonly descriptor: SourceDescriptor;
      readonly storedBytes: number;
      readonly offset: number;
      readonly byteLength: number;
    };
    readonly result: QuantizedRange;
  };
  /** Cuts, compresses and encrypts files for a vault. */
  readonly "vault-seal": { readonly request: SealRequest; readonly result: SealResult };
  /** Parity of a window of a file that the worker reads itself. */
  readonly "parity-window": { readonly request: ParityRequest; readonly result: Bytes };
  /** A group of shards of a file that the worker reads itself, healed in memory that comes with the request. */
  readonly "parity-heal": { readonly request: HealRequest; readonly result: HealedGroup };
  /** Decrypts chunks of a vault and writes files; how many. */
  readonly "vault-extract": { readonly request: ExtractRequest; readonly result: number };
  /** Sentences through an encoder that the worker has under `encoder`, or gets with this request. */
  readonly "embed-group": {
    readonly request: {
      readonly encoder: string;
      readonly image?: EncoderImage | undefined;
      readonly group: SentenceGroup;
    };
    /** Undefined where the worker does not have that encoder: the request must come again with its image. */
    readonly result: Float32Array<ArrayBuffer> | undefined;
  };
  /** Hashes bytes that were transferred. */
  readonly digest: {
    readonly request: { readonly algorithm: DigestAlgorithm; readonly bytes: Bytes };
    readonly result: Bytes;
  };
}

/** The name of a job. */
export type JobKind = keyof JobTable;
/** What a job is told. */
export type JobRequest<K extends JobKind> = JobTable[K]["request"];
/** What a job gives back. */
export type JobResult<K extends JobKind> = JobTable[K]["result"];

/** From the pool to a worker. A worker runs one job at a time. */
export type ToWorker =
  | { readonly type: "run"; readonly id: number; readonly kind: JobKind; readonly request: JobRequest<JobKind> }
  | { readonly type: "cancel"; readonly id: number };

/** From a worker to the pool: "ready" once, then for each job any progress and exactly one end. */
export type FromWorker =
  | { readonly type: "ready"; readonly protocol: number }
  | { readonly type: "progress"; readonly id: number; readonly byteLength: number }
  | { readonly type: "done"; readonly id: number; readonly result: JobResult<JobKind> }
  | { readonly type: "failed"; readonly id: number; readonly error: ErrorJson };

/** The pool's end of one worker; a platform makes these. */
export interface WorkerPort {
  post(message: ToWorker, transfer?: readonly ArrayBuffer[]): void;
  /** Called once, before the first post. `onEnd` says why no more messages will come; it may be called repeatedly. */
  listen(onMessage: (message: FromWorker) => void, onEnd: (reason: string) => void): void;
  /** A busy worker keeps the process alive, an idle one does not. Does nothing where the host has no such notion. */
  setBusy(state: "busy" | "idle"): void;
  terminate(): Promise<void>;
}

/** The worker's end. */
export interface ServerPort {
  post(message: FromWorker, transfer?: readonly ArrayBuffer[]): void;
  listen(onMessage: (message: ToWorker) => void): void;
}

/** Extents as one array that is cheap to send. */
export function packExtents(extents: readonly HashExtent[]): Float64Array<ArrayBuffer> {
  const packed = new Float64Array(extents.length * 2);
  extents.forEach(({ offset, byteLength }, i) => {
    packed[2 * i] = offset;
    packed[2 * i + 1] = byteLength;
  });
  return packed;
}

/** The same extents, `base` bytes further on. */
export function unpackExtents(packed: Float64Array<ArrayBuffer>, base: number): HashExtent[] {
  const extents: HashExtent[] = [];
  for (let i = 0; i < packed.length; i += 2) {
    extents.push({ offset: base + (packed[i] as number), byteLength: packed[i + 1] as number });
  }
  return extents;
}
