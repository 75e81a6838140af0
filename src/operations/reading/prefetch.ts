import { LimitError } from "../../base/errors.ts";
import { LinkedAbort } from "../../bytes/abort.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Model } from "../../model/model.ts";
import { Tensor } from "../../model/tensor.ts";

export interface PrefetchOptions {
  /** Most bytes of all the tensors together; 256 MiB if absent. */
  readonly maxBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const MAX_BYTES = 256 << 20;
/** Most bytes in progress in one wave of reads, including the pages that tensors lie in. */
const WAVE_BYTES = 48 << 20;
/** A tensor that is checked by pages needs whole pages: of the usual 4 MiB, as many as a small tensor lies in. */
const PAGE_BYTES = 4 << 20;

/**
 * Reads the named tensors together: neighbours share requests, distant ones are requested at the same time, and each is
 * checked like any read. The tensors in the result have their bytes in memory, so reading them, or rows of them, takes
 * no request. Throws `usage/tensor-not-found` or `limit/prefetch` before anything is read.
 */
export async function prefetch(
  model: Model,
  names: Iterable<string>,
  options: PrefetchOptions = {},
): Promise<ReadonlyMap<string, Tensor>> {
  const tensors = [...new Set(names)].map((name) => model.tensor(name));
  checkTotal(model, tensors, options.maxBytes ?? MAX_BYTES);
  const loaded = new Map<string, Tensor>(tensors.map((tensor) => [tensor.name, tensor]));
  for (const wave of planWaves(model, tensors)) {
    options.signal?.throwIfAborted();
    for (const tensor of await loadWave(wave, options.signal)) loaded.set(tensor.name, tensor);
  }
  return loaded;
}

function checkTotal(model: Model, tensors: readonly Tensor[], maxBytes: number): void {
  const total = tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (total <= maxBytes) return;
  const message = `Cannot fetch ${tensors.length} tensors ahead: their bytes must be <= ${maxBytes}, found ${total}`;
  const source = model.parts[0]?.label ?? model.format;
  throw new LimitError("limit/prefetch", message, { source }, { hint: "Fetch fewer at a time, or raise maxBytes" });
}

/** In the order of the files, so that neighbours are in one wave: concurrent reads are merged further down. */
function* planWaves(model: Model, tensors: readonly Tensor[]): Generator<readonly Tensor[]> {
  const sorted = [...tensors].sort((a, b) => compareText(a.file ?? "", b.file ?? "") || a.offset - b.offset);
  let wave: Tensor[] = [];
  let waveBytes = 0;
  for (const tensor of sorted) {
    const overhead = model.verificationOf?.(tensor) === "pages" ? PAGE_BYTES : 0;
    const cost = tensor.byteLength + overhead;
    if (wave.length > 0 && waveBytes + cost > WAVE_BYTES) {
      yield wave;
      wave = [];
      waveBytes = 0;
    }
    wave.push(tensor);
    waveBytes += cost;
  }
  if (wave.length > 0) yield wave;
}

/** The first failure ends the other reads of its wave. */
async function loadWave(wave: readonly Tensor[], signal: AbortSignal | undefined): Promise<readonly Tensor[]> {
  const abort = new LinkedAbort(signal);
  const loads = wave.map((tensor) =>
    abort
      .run((inner) => load(tensor, inner))
      .catch((error: unknown) => {
        abort.abort(error);
        throw error;
      }),
  );
  const results = await Promise.allSettled(loads);
  abort.release();
  if (abort.ended !== undefined) throw abort.ended.reason;
  return results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
}

async function load(tensor: Tensor, signal: AbortSignal): Promise<Tensor> {
  const bytes = await tensor.bytes({ signal });
  const source = memorySource(bytes, tensor.file ?? tensor.name);
  return new Tensor(tensor, { source: () => source });
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
