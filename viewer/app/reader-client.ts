import { type ErrorJson, reviveError } from "../../src/base/errors.ts";
import type { CallName, CallProgress, CallRequest, CallResult, FromReader, ToReader } from "../shared/protocol.ts";
import { inheritingScript } from "../shared/protocol.ts";

export interface CallOptions<N extends CallName> {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: CallProgress<N>) => void) | undefined;
}

/** Asks the user for the password of a label; undefined if the user declines. */
export type PasswordPrompt = (label: string) => Promise<Uint8Array<ArrayBuffer> | undefined>;

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly onProgress: ((progress: unknown) => void) | undefined;
}

/** The page's end of the connection to the reader. */
export class ReaderClient {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  readonly #prompt: PasswordPrompt;
  #next = 1;

  constructor(prompt: PasswordPrompt) {
    this.#prompt = prompt;
    this.#worker = new Worker(inheritingScript(new URL("./reader.js", import.meta.url)), { type: "module" });
    this.#worker.addEventListener("message", (event: MessageEvent<FromReader>) => this.#take(event.data));
    this.#worker.addEventListener("error", (event) => this.#fail(event.message || "its script does not run"));
  }

  /** Rejects with a TareError, or with the signal's reason. */
  call<N extends CallName>(
    name: N,
    request: CallRequest<N>,
    { signal, onProgress }: CallOptions<N> = {},
  ): Promise<CallResult<N>> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const take = onProgress as Pending["onProgress"];
      this.#pending.set(id, { resolve: resolve as Pending["resolve"], reject, onProgress: take });
      signal?.addEventListener("abort", () => {
        if (!this.#pending.delete(id)) return;
        this.#post({ type: "cancel", id });
        reject(signal.reason);
      });
      this.#post({ type: "call", id, name, request });
    });
  }

  #take(message: FromReader): void {
    if (message.type === "ask") {
      void this.#ask(message.id, message.label);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (pending === undefined) return;
    if (message.type === "progress") {
      pending.onProgress?.(message.progress);
      return;
    }
    this.#pending.delete(message.id);
    if (message.type === "done") pending.resolve(message.result);
    else pending.reject(reviveError(message.error));
  }

  async #ask(id: number, label: string): Promise<void> {
    const password = await this.#prompt(label);
    // Moved, not copied: nothing of it stays in the page.
    this.#worker.postMessage({ type: "answer", id, password }, password === undefined ? [] : [password.buffer]);
  }

  #fail(reason: string): void {
    const error: ErrorJson = {
      type: "error",
      name: "SourceError",
      code: "source/worker.failed",
      message: `The reader stopped: ${reason}`,
      at: { source: "reader" },
    };
    for (const { reject } of this.#pending.values()) reject(reviveError(error));
    this.#pending.clear();
  }

  #post(message: ToReader): void {
    this.#worker.postMessage(message);
  }
}
