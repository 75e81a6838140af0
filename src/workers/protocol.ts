import type { Bytes } from "../base/bytes.ts";
import type { ErrorJson } from "../base/errors.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import type { GroupRequest, GroupResult } from "../embedding/encoder/worker.ts";
import type { SealRequest, SealResult } from "../formats/aerovault/write/seal/worker.ts";
import type { HealedGroup } from "../model/parity/heal.ts";
import type { HealRequest, ParityRequest } from "../operations/correct/worker.ts";
import type { QuantizeRequest } from "../operations/quantize.ts";
import type { ExtractRequest, LostFile } from "../operations/vault/extract/worker.ts";
import type { DigestAlgorithm, HashExtent, QuantizedRange } from "../primitives/engine.ts";

/** Both sides are built from the same sources. This refuses a worker script of another build, which may differ. */
export const PROTOCOL_VERSION = 4;

/** Consecutive runs of a longer input, the first extents of a job. */
export interface Subtrees {
  readonly count: number;
  /** Bytes of the input before the first one. */
  readonly at: number;
}

/** The jobs of workers. Requests and results are structured-clonable. */
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
  /** Hashes many runs of a source in one pass. The result is the digests one after the other. */
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
    readonly request: QuantizeRequest & { readonly descriptor: SourceDescriptor };
    readonly result: QuantizedRange;
  };
  /** Cuts, compresses and encrypts files for a vault. */
  readonly "vault-seal": { readonly request: SealRequest; readonly result: SealResult };
  /** Parity of a window of a file that the worker reads itself. */
  readonly "parity-window": { readonly request: ParityRequest; readonly result: Bytes };
  /** Heals a group of shards of a file that the worker reads itself, in memory that comes with the request. */
  readonly "parity-heal": { readonly request: HealRequest; readonly result: HealedGroup };
  /** Decrypts chunks of a vault and writes files. The result is how many. */
  readonly "vault-extract": { readonly request: ExtractRequest; readonly result: readonly LostFile[] };
  /** Runs sentences through the encoder that the worker keeps under `encoder`, or gets with this request. */
  readonly "embed-group": { readonly request: GroupRequest; readonly result: GroupResult };
  /** Hashes bytes that were transferred. */
  readonly digest: {
    readonly request: { readonly algorithm: DigestAlgorithm; readonly bytes: Bytes };
    readonly result: Bytes;
  };
}

/** The name of a job. */
export type JobKind = keyof JobTable;
/** The input of a job. */
export type JobRequest<K extends JobKind> = JobTable[K]["request"];
/** The result of a job. */
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
  /** Called once, before the first post. `onEnd` tells why no more messages will come; it may be called repeatedly. */
  listen(onMessage: (message: FromWorker) => void, onEnd: (reason: string) => void): void;
  /** A busy worker keeps the process alive, an idle one does not. Does nothing on hosts without this distinction. */
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

/** The extents, moved by `base` bytes. */
export function unpackExtents(packed: Float64Array<ArrayBuffer>, base: number): HashExtent[] {
  const extents: HashExtent[] = [];
  for (let i = 0; i < packed.length; i += 2) {
    extents.push({ offset: base + (packed[i] as number), byteLength: packed[i + 1] as number });
  }
  return extents;
}
