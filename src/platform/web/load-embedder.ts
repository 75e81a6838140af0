import { reviveError, SourceError } from "../../base/errors.ts";
import type { EmbedOptions } from "../../embedding/encoder/encoder.ts";
import type { ClonableInput, ClonableOptions, EmbedderFacts, FromEmbedder, ToEmbedder } from "./embedder-protocol.ts";

export interface WebEmbedderOptions extends ClonableOptions {
  readonly signal?: AbortSignal | undefined;
  /** The worker script, where the bundler puts it elsewhere than beside this module. */
  readonly workerUrl?: URL | string | undefined;
}

/** Sentences to vectors, computed in a worker. */
export interface WebEmbedder extends EmbedderFacts {
  /** One vector for each text, in their order; each is what it would be alone. */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<readonly Float32Array<ArrayBuffer>[]>;
  /** Ends the worker. */
  close(): void;
}

/**
 * Loads an embedder in a worker of its own, so that the page stays fluid. Takes an http(s) address, a File or Blob, or
 * bytes; the files beside a model are found where it has an address. Throws what the portable `loadEmbedder` throws, and
 * `source/worker.failed` where the page's policy forbids the worker.
 */
export async function loadEmbedder(input: ClonableInput | URL, options: WebEmbedderOptions = {}): Promise<WebEmbedder> {
  const { signal, workerUrl, ...settings } = options;
  const worker = new EmbedderWorker(workerUrl);
  try {
    // A worker made from a bundle may have another base than the page.
    const given = input instanceof URL || typeof input === "string" ? new URL(input, location.href).href : input;
    const facts = await worker.load(given, settings, signal);
    return { ...facts, embed: (texts, { signal } = {}) => worker.embed(texts, signal), close: () => worker.close() };
  } catch (error) {
    worker.close();
    throw error;
  }
}

interface Waiting {
  resolve(answer: FromEmbedder): void;
  reject(error: unknown): void;
}

/** The page's end of the worker. */
class EmbedderWorker {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;

  constructor(url: URL | string | undefined) {
    this.#worker =
      url === undefined
        ? new Worker(new URL("./embedder-entry.js", import.meta.url), { type: "module" })
        : new Worker(url, { type: "module" });
    this.#worker.addEventListener("message", (event: MessageEvent<FromEmbedder>) => this.#settle(event.data));
    // A script that does not load gives a bare event, without a message.
    this.#worker.addEventListener("error", (event) => this.#end(event.message || "its script does not run"));
  }

  async load(input: ClonableInput, options: ClonableOptions, signal: AbortSignal | undefined): Promise<EmbedderFacts> {
    const answer = await this.#ask({ type: "load", id: this.#next++, input, options }, signal);
    if (answer.type !== "loaded") throw failed("it gave an answer to another question");
    return answer.facts;
  }

  async embed(
    texts: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<readonly Float32Array<ArrayBuffer>[]> {
    const answer = await this.#ask({ type: "embed", id: this.#next++, texts }, signal);
    if (answer.type !== "embedded") throw failed("it gave an answer to another question");
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
