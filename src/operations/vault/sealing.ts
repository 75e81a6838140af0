import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import type { SourceDescriptor } from "../../bytes/source.ts";
import type { VaultKeys } from "../../formats/aerovault/keys.ts";
import { PREFIX_BYTES } from "../../formats/aerovault/layout.ts";
import { type ChunkCutter, type ChunkerName, gearRule } from "../../formats/aerovault/write/chunking.ts";
import type { VaultEdit } from "../../formats/aerovault/write/edit.ts";
import { checkBounds, effectiveLevel, type VaultSettings } from "../../formats/aerovault/write/profiles.ts";
import {
  IdClaims,
  runSealJob,
  type SealHost,
  type SealRequest,
  type SealResult,
  type SealSetup,
  type SealWork,
} from "../../formats/aerovault/write/seal/worker.ts";
import type { Engine } from "../../primitives/engine.ts";

/** Runs jobs, on other threads if there are any. */
export interface SealRunner {
  /** How many jobs should run at once. */
  readonly width: number;
  run(request: SealRequest, options: { readonly onProgress: (byteLength: number) => void }): Promise<SealResult>;
}

/** Runs every job on the calling thread, one after the other, even if several are requested at once. */
export function localRunner(host: SealHost): SealRunner {
  const run: SealRunner["run"] = (request, { onProgress }) => runSealJob(request, { ...host, onProgress });
  return { width: 1, run: inTurn(run) };
}

/**
 * Starts each call when the one before has ended. Jobs of one thread share the memory that is reused from job to job:
 * two at once would overwrite each other's blocks.
 */
export function inTurn<A extends readonly unknown[], R>(run: (...args: A) => Promise<R>): (...args: A) => Promise<R> {
  let last: Promise<unknown> = Promise.resolve();
  return (...args) => {
    const next = last.then(() => run(...args));
    last = next.catch(() => undefined); // its caller gets the error
    return next;
  };
}

/** The chunks that a piece of work became, once they are stored. */
export interface SealedWork {
  readonly ids: readonly string[];
  readonly lengths: readonly number[];
}

export interface QueueOptions {
  readonly edit: VaultEdit;
  readonly runner: SealRunner;
  readonly setup: SealSetup;
  /** Expected number of chunks: the table of ids has room for them. */
  readonly expectedChunks: number;
  readonly onProgress: (byteLength: number) => void;
}

interface Running {
  readonly result: Promise<SealResult>;
  readonly request: SealRequest | undefined;
  readonly then: (sealed: SealedWork) => void;
}

const NOTHING: SealResult = { ids: [], lengths: [], blocks: [], stored: EMPTY_BYTES };

/**
 * Seals work on several threads and stores the results in the order of the input. The blocks of one job are together;
 * where jobs write into the vault themselves, they lie in the order in which the jobs end. Memory is bounded: `push` waits while enough jobs run.
 */
export class SealQueue {
  readonly #options: QueueOptions;
  readonly #claims: IdClaims | undefined;
  readonly #running: Running[] = [];
  /** Chunks that a thread left out because another one claims them; this is certain only at the end. */
  readonly #owed = new Map<string, SealRequest>();

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#claims = options.runner.width > 1 ? IdClaims.create(options.expectedChunks) : undefined;
    if (this.#claims !== undefined) for (const id of options.edit.ids()) this.#claims.claim(id);
  }

  /** Calls `then` once the chunks are stored, in the order of the calls. */
  async push(work: SealWork, then: (sealed: SealedWork) => void): Promise<void> {
    const { edit, runner, setup, onProgress } = this.#options;
    while (this.#jobs() > runner.width) await this.#settleFirst();
    // With one job at a time no index is skipped, as in vaults that the reference writes.
    const firstIndex = runner.width === 1 ? edit.nextIndex : edit.reserveIndices(maxBlocks({ setup, work }));
    const output = runner.width === 1 ? undefined : edit.output;
    const request: SealRequest = { setup, firstIndex, claims: this.#claims?.memory, output, work };
    const result = runner.run(request, { onProgress });
    result.catch(() => undefined); // thrown when its turn comes
    this.#running.push({ result, request, then });
    if (runner.width === 1) await this.#settleFirst();
  }

  /** Calls `then` once everything that was pushed so far is stored. */
  async after(then: () => void): Promise<void> {
    if (this.#running.length === 0) then();
    else this.#running.push({ result: Promise.resolve(NOTHING), request: undefined, then });
  }

  /** Waits for all jobs, and seals chunks that two threads each left to the other. */
  async finish(): Promise<void> {
    while (this.#running.length > 0) await this.#settleFirst();
    const { edit, runner } = this.#options;
    for (const [id, request] of this.#owed) {
      if (edit.has(id)) continue;
      const again = { ...request, claims: undefined, firstIndex: edit.reserveIndices(maxBlocks(request)) };
      await this.#store(await runner.run(again, { onProgress: () => undefined }));
      if (!edit.has(id)) throw changedError(id);
    }
  }

  /** Waits until no job runs any more, whether they succeed or fail. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#running.splice(0).map(({ result }) => result));
  }

  #jobs(): number {
    return this.#running.reduce((count, { request }) => count + (request === undefined ? 0 : 1), 0);
  }

  async #settleFirst(): Promise<void> {
    const first = this.#running[0];
    if (first === undefined) return;
    const result = await first.result;
    this.#running.shift();
    await this.#store(result);
    const { request } = first;
    if (request !== undefined)
      for (const id of result.ids) if (!this.#options.edit.has(id)) this.#owed.set(id, request);
    first.then(result);
  }

  async #store({ blocks, stored }: SealResult): Promise<void> {
    const { edit } = this.#options;
    let position = 0;
    for (const block of blocks) {
      const end = position + PREFIX_BYTES + block.blockLen;
      if (!edit.has(block.id)) {
        if (typeof stored === "number") edit.adopt(block, stored + position);
        else await edit.store({ block, stored: stored.subarray(position, end) });
      }
      position = end;
    }
  }
}

/** The most blocks that a request can become. */
function maxBlocks({ work, setup }: Pick<SealRequest, "work" | "setup">): number {
  if (work.kind !== "pack") return work.lengths.length;
  return Math.ceil(work.byteLength / setup.gear.minBytes) + 1;
}

function changedError(id: string): SourceError {
  return new SourceError("source/vault.input-changed", `Cannot store chunk ${id}: its file changed while it was read`, {
    source: "input",
  });
}

/** Bytes that one job seals: enough that messages cost little, few enough that several fit into memory. */
const SEGMENT_BYTES = 8 << 20;

export interface ChunkStreamOptions {
  readonly cutter: ChunkCutter;
  /** If given, jobs read the file themselves, and none of its bytes are kept here. */
  readonly descriptor: SourceDescriptor | undefined;
  readonly queue: SealQueue;
  /** Called for the whole file once its last chunk is stored. */
  readonly onDone: (ids: readonly string[], size: number) => void;
}

/** One file on its way into the vault: cut here, sealed by jobs of several chunks each. */
export class ChunkStream {
  readonly #options: ChunkStreamOptions;
  readonly #ids: string[] = [];
  /** Chunks that are cut and not yet pushed. */
  #lengths: number[] = [];
  #cutBytes = 0;
  /** Offset of the first of them. */
  #start = 0;
  /** Bytes from `start` on, if there is no descriptor. */
  #held: Bytes[] = [];
  #heldBytes = 0;

  constructor(options: ChunkStreamOptions) {
    this.#options = options;
  }

  /** Takes the next piece; the caller may change it after the promise settles. */
  async push(piece: Bytes): Promise<void> {
    if (this.#options.descriptor === undefined) {
      this.#held.push(piece.slice());
      this.#heldBytes += piece.byteLength;
    }
    this.#take(this.#options.cutter.push(piece));
    while (this.#cutBytes >= SEGMENT_BYTES) await this.#flush();
  }

  async end(): Promise<void> {
    this.#take(this.#options.cutter.end());
    while (this.#lengths.length > 0) await this.#flush();
    // Queued after all jobs of this file, so that their results are complete.
    await this.#options.queue.after(() => this.#options.onDone(this.#ids, this.#start));
  }

  #take(lengths: readonly number[]): void {
    for (const length of lengths) {
      this.#lengths.push(length);
      this.#cutBytes += length;
    }
  }

  async #flush(): Promise<void> {
    const { queue, descriptor } = this.#options;
    const lengths: number[] = [];
    let byteLength = 0;
    for (const length of this.#lengths) {
      if (byteLength > 0 && byteLength + length > SEGMENT_BYTES) break;
      lengths.push(length);
      byteLength += length;
    }
    this.#lengths = this.#lengths.slice(lengths.length);
    this.#cutBytes -= byteLength;
    const offset = this.#start;
    this.#start += byteLength;
    const work =
      descriptor === undefined
        ? { kind: "bytes" as const, bytes: this.#shift(byteLength), lengths }
        : { kind: "range" as const, descriptor, offset, lengths };
    await queue.push(work, ({ ids }) => {
      for (const id of ids) this.#ids.push(id);
    });
  }

  /** The first of the held bytes, in a separate buffer. */
  #shift(byteLength: number): Bytes {
    const whole = this.#held.length === 1 ? (this.#held[0] as Bytes) : concatBytes(this.#held);
    this.#heldBytes -= byteLength;
    this.#held = this.#heldBytes === 0 ? [] : [whole.subarray(byteLength)];
    return whole.slice(0, byteLength);
  }
}

/** How files are cut, compressed and sealed: by the settings in the vault's manifest, with the requested chunker. */
export async function sealSetup(
  engine: Engine,
  { bounds, level }: { readonly bounds: VaultSettings["bounds"]; readonly level: number | undefined },
  { keys, chunker, label }: { readonly keys: VaultKeys; readonly chunker: ChunkerName; readonly label: string },
): Promise<SealSetup> {
  checkBounds(bounds, label);
  return {
    keys,
    level: effectiveLevel(level),
    compression: chunker === "reference" ? "reference" : "adaptive",
    gear: await gearRule(engine, chunker, { keys, bounds }),
  };
}
