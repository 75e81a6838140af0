import { EMPTY_BYTES } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { PREFIX_BYTES } from "../../formats/aerovault/layout.ts";
import { IdClaims } from "../../formats/aerovault/write/id-claims.ts";
import {
  runSealJob,
  type SealHost,
  type SealRequest,
  type SealResult,
  type SealSetup,
  type SealWork,
} from "../../formats/aerovault/write/seal-job.ts";
import type { VaultEdit } from "../../formats/aerovault/write/vault-edit.ts";

/** Runs jobs, on other threads where there are any. */
export interface SealRunner {
  /** Jobs that are worth having under way at once. */
  readonly width: number;
  run(request: SealRequest, options: { readonly onProgress: (byteLength: number) => void }): Promise<SealResult>;
}

/** Runs every job on the calling thread, one after the other. */
export function localRunner(host: SealHost): SealRunner {
  return { width: 1, run: (request, { onProgress }) => runSealJob(request, { ...host, onProgress }) };
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
  /** Chunks that may come: the table of ids has room for them. */
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
 * Seals work on several threads and stores what comes back in the order in which it was given, so that a file's blocks
 * lie together. Memory is bounded: `push` waits while enough is under way.
 */
export class SealQueue {
  readonly #options: QueueOptions;
  readonly #claims: IdClaims | undefined;
  readonly #running: Running[] = [];
  /** Chunks that a thread left out because another one has them; certain only at the end. */
  readonly #owed = new Map<string, SealRequest>();

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#claims = options.runner.width > 1 ? IdClaims.create(options.expectedChunks) : undefined;
    if (this.#claims !== undefined) for (const id of options.edit.ids()) this.#claims.claim(id);
  }

  /** `then` hears of the chunks once they are stored, in the order of the calls. */
  async push(work: SealWork, then: (sealed: SealedWork) => void): Promise<void> {
    const { edit, runner, setup, onProgress } = this.#options;
    while (this.#jobs() > runner.width) await this.#settleFirst();
    // One job at a time: no index is left out, as in vaults that the reference writes.
    const firstIndex = runner.width === 1 ? edit.nextIndex : edit.reserveIndices(maxBlocks({ setup, work }));
    const output = runner.width === 1 ? undefined : edit.output;
    const request: SealRequest = { setup, firstIndex, claims: this.#claims?.memory, output, work };
    const result = runner.run(request, { onProgress });
    result.catch(() => undefined); // told when its turn comes
    this.#running.push({ result, request, then });
    if (runner.width === 1) await this.#settleFirst();
  }

  /** Calls back once everything that was pushed so far is stored. */
  async after(then: () => void): Promise<void> {
    if (this.#running.length === 0) then();
    else this.#running.push({ result: Promise.resolve(NOTHING), request: undefined, then });
  }

  /** Waits for everything, and seals what two threads each believed to be the other's. */
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

  /** Waits until nothing is under way any more, whatever became of it. */
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

/** Blocks that a request can become at most. */
function maxBlocks({ work, setup }: Pick<SealRequest, "work" | "setup">): number {
  if (work.kind !== "pack") return work.lengths.length;
  return Math.ceil(work.byteLength / setup.gear.minBytes) + 1;
}

function changedError(id: string): SourceError {
  return new SourceError("source/vault.input-changed", `Cannot store chunk ${id}: its file changed while it was read`, {
    source: "input",
  });
}
