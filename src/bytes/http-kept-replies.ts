import type { LongReply } from "./http-long-reply.ts";

/** Replies that brought more than one read took, kept where the next read of a run will go on. */
export class KeptReplies {
  readonly #kept = new Map<number, { readonly reply: LongReply; readonly unlink: () => void }>();

  /** Keeps a reply whose next byte is the one at `offset`; gives it up when `until` aborts. */
  keep(offset: number, reply: LongReply, until: AbortSignal): void {
    this.#drop(offset);
    const forget = (): void => this.#drop(offset);
    const unlink = (): void => until.removeEventListener("abort", forget);
    reply.exchange.follow([]);
    this.#kept.set(offset, { reply, unlink });
    if (until.aborted) forget();
    else until.addEventListener("abort", forget, { once: true });
  }

  /** The reply that goes on at `offset`, where there is one; it belongs to the caller then. */
  take(offset: number): LongReply | undefined {
    const kept = this.#kept.get(offset);
    this.#kept.delete(offset);
    kept?.unlink();
    return kept?.reply;
  }

  close(): void {
    for (const offset of [...this.#kept.keys()]) this.#drop(offset);
  }

  #drop(offset: number): void {
    this.take(offset)?.exchange.cancel();
  }
}
