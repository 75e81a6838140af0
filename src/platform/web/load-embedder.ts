/// <reference lib="esnext.disposable" preserve="true" />
import { type EmbedderOptions, ENCODING_RULES } from "../../api/embed/load.ts";
import { COMMON_RULES, checkOptions, type OptionRules } from "../../api/options.ts";
import { type Bytes, plainBytes } from "../../base/bytes.ts";
import { type ErrorJson, reviveError, SourceError, UsageError } from "../../base/errors.ts";
import { type FileHandle, isFileHandle } from "../../bytes/handles/handle.ts";
import type { EmbedCallOptions } from "../../embedding/encoder/encoder.ts";

/** What can be sent to a worker: of the Inputs, those that are bytes or an address. */
export type WebInput = string | URL | Blob | ArrayBuffer | Uint8Array | FileHandle;

export interface WebEmbedderOptions extends Omit<ClonableOptions, "vocab">, Pick<EmbedderOptions, "signal" | "onNote"> {
  readonly vocab?: WebInput | undefined;
  /** The worker script, if the bundler does not put it next to this module. */
  readonly workerUrl?: URL | string | undefined;
}

/** Sentences to vectors, computed in a worker. `await using` closes it. */
export interface WebEmbedder extends EmbedderFacts, AsyncDisposable {
  /** One vector for each text, in their order; each is the same as if it were embedded alone. */
  embed(texts: readonly string[], options?: EmbedCallOptions): Promise<readonly Float32Array<ArrayBuffer>[]>;
  /** Ends the worker; allowed twice. */
  close(): Promise<void>;
}

const CLONED = [
  "heads",
  "maxLength",
  "normalize",
  "compat",
  "kernel",
  "precision",
  "pooling",
  "headers",
  "allowOrigin",
  "timeout",
  "retries",
  "memory",
  "limits",
  "encryption",
  "s3",
] as const;

const anything = { must: "given", test: () => true };
const RULES: OptionRules = {
  ...Object.fromEntries([...CLONED, "vocab"].map((name) => [name, anything])),
  ...Object.fromEntries(Object.entries({ ...COMMON_RULES, ...ENCODING_RULES }).filter(([name]) => isCloned(name))),
  password: {
    must: "text or bytes: a function cannot be sent to a worker",
    test: (value) => typeof value === "string" || value instanceof Uint8Array,
  },
  signal: COMMON_RULES.signal,
  onNote: COMMON_RULES.onNote,
  workerUrl: { must: "a URL", test: (value) => typeof value === "string" || value instanceof URL },
};

function isCloned(name: string): boolean {
  return (CLONED as readonly string[]).includes(name);
}

/**
 * Loads an embedder in its own worker, so that the page stays responsive. Takes an address, a file handle, a File or
 * Blob, or bytes; the files next to a model are found if it has an address. Throws what the portable `loadEmbedder`
 * throws, and `source/worker.failed` if the page's policy forbids the worker.
 *
 * @example
 * await using embedder = await loadEmbedder("https://models.example/minilm.weights");
 * const [vector] = await embedder.embed(["a small cat"]);
 */
export async function loadEmbedder(weights: WebInput, options: WebEmbedderOptions = {}): Promise<WebEmbedder> {
  checkOptions("loadEmbedder", options, RULES);
  const { signal, workerUrl, onNote, vocab, ...settings } = options;
  signal?.throwIfAborted();
  const input = await clonable(weights);
  const sent = { ...settings, ...(vocab === undefined ? {} : { vocab: await clonable(vocab) }) };
  const worker = new EmbedderWorker(workerUrl);
  const close = async (): Promise<void> => worker.close();
  try {
    const facts = await worker.load(input, sent, signal);
    for (const note of facts.notes) onNote?.(note);
    return {
      ...facts,
      get notes() {
        return worker.notes;
      },
      embed: (texts, { signal } = {}) => worker.embed(texts, signal),
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    worker.close();
    throw error;
  }
}

async function clonable(input: WebInput): Promise<ClonableInput> {
  // A worker made from a bundle may have another base address than the page.
  if (typeof input === "string" || input instanceof URL) return addressIn(input);
  if (input instanceof Blob) return input;
  if (input instanceof ArrayBuffer) return plainBytes(input).buffer;
  if (input instanceof Uint8Array) return new Uint8Array(plainBytes(input));
  if (typeof input === "object" && input !== null && isFileHandle(input)) return input.getFile();
  const message = "Cannot embed in a worker: this input cannot be sent to one";
  const hint = 'Pass an address, a Blob, bytes or a file handle; other inputs work with loadEmbedder of "tare"';
  throw new UsageError("usage/input", message, { source: "input" }, { hint });
}

function addressIn(text: string | URL): string {
  if (/^s3:/i.test(String(text))) return String(text);
  if (URL.canParse(String(text), location.href)) return new URL(text, location.href).href;
  throw new UsageError("usage/not-a-url", `Cannot open "${text}": it is no address`, { source: String(text) });
}

interface Waiting {
  resolve(answer: FromEmbedder): void;
  reject(error: unknown): void;
}

/** The page's side of the worker. */
class EmbedderWorker {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  /** As the worker told them last. */
  notes: readonly string[] = [];
  #next = 0;

  constructor(url: URL | string | undefined) {
    this.#worker =
      url === undefined
        ? new Worker(new URL("./embedder-entry.js", import.meta.url), { type: "module" })
        : new Worker(url, { type: "module" });
    this.#worker.addEventListener("message", (event: MessageEvent<FromEmbedder>) => this.#settle(event.data));
    // If the script does not load, the event has no message.
    this.#worker.addEventListener("error", (event) => this.#end(event.message || "its script does not run"));
  }

  async load(input: ClonableInput, options: ClonableOptions, signal: AbortSignal | undefined): Promise<EmbedderFacts> {
    const answer = await this.#ask({ type: "load", id: this.#next++, input, options }, signal);
    if (answer.type !== "loaded") throw failed("it gave an answer to another question");
    this.notes = answer.facts.notes;
    return answer.facts;
  }

  async embed(
    texts: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<readonly Float32Array<ArrayBuffer>[]> {
    const answer = await this.#ask({ type: "embed", id: this.#next++, texts }, signal);
    if (answer.type !== "embedded") throw failed("it gave an answer to another question");
    this.notes = answer.notes;
    return answer.vectors;
  }

  close(): void {
    this.#worker.terminate();
    this.#end("it was closed");
  }

  #ask(message: ToEmbedder, signal: AbortSignal | undefined): Promise<FromEmbedder> {
    signal?.throwIfAborted();
    const { id } = message;
    const cancel = (): void => this.#worker.postMessage({ type: "cancel", id } satisfies ToEmbedder);
    signal?.addEventListener("abort", cancel, { once: true });
    return new Promise<FromEmbedder>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage(message);
    }).finally(() => signal?.removeEventListener("abort", cancel));
  }

  #settle(message: FromEmbedder): void {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.type === "failed") waiting?.reject(reviveError(message.error));
    else waiting?.resolve(message);
  }

  #end(reason: string): void {
    for (const { reject } of this.#waiting.values()) reject(failed(reason));
    this.#waiting.clear();
  }
}

function failed(reason: string): SourceError {
  return new SourceError("source/worker.failed", `Cannot embed in a worker: ${reason}`, { source: "worker" });
}

/** What an embedder's worker can load; all of it can be cloned. */
export type ClonableInput = string | Blob | ArrayBuffer | Bytes;

/** The settings of an embedder that can be cloned. */
export interface ClonableOptions extends Pick<EmbedderOptions, (typeof CLONED)[number]> {
  readonly password?: string | Uint8Array | undefined;
  readonly vocab?: ClonableInput | undefined;
}

/** What is known about a loaded embedder. */
export interface EmbedderFacts {
  readonly dimension: number;
  readonly kernel: string;
  readonly precision: string;
  readonly maxTokens: number;
  readonly notes: readonly string[];
}

export type ToEmbedder =
  | { readonly type: "load"; readonly id: number; readonly input: ClonableInput; readonly options: ClonableOptions }
  | { readonly type: "embed"; readonly id: number; readonly texts: readonly string[] }
  | { readonly type: "cancel"; readonly id: number };

/** One answer to each "load" and "embed". */
export type FromEmbedder =
  | { readonly type: "loaded"; readonly id: number; readonly facts: EmbedderFacts }
  | {
      readonly type: "embedded";
      readonly id: number;
      readonly vectors: readonly Float32Array<ArrayBuffer>[];
      readonly notes: readonly string[];
    }
  | { readonly type: "failed"; readonly id: number; readonly error: ErrorJson };
