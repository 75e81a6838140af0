import { loadEmbedder } from "../../api/embed/load.ts";
import { portableHost } from "../../api/open/portable.ts";
import { isTareError, SourceError } from "../../base/errors.ts";
import type { Embedder } from "../../embedding/embedder.ts";
import type { FromEmbedder, ToEmbedder } from "./load-embedder.ts";

/** The script of a worker that holds one embedder. A sentence takes milliseconds, which must not block a page. */

const scope = globalThis as unknown as DedicatedWorkerGlobalScope;
const running = new Map<number, AbortController>();
let embedder: Embedder | undefined;

scope.addEventListener("message", (event: MessageEvent<ToEmbedder>) => {
  const message = event.data;
  if (message.type === "cancel") running.get(message.id)?.abort();
  else void answer(message);
});

async function answer(message: Exclude<ToEmbedder, { readonly type: "cancel" }>): Promise<void> {
  const { id } = message;
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const reply = await run(message, controller.signal);
    const transfer = reply.type === "embedded" ? reply.vectors.map(({ buffer }) => buffer) : [];
    scope.postMessage(reply, transfer);
  } catch (error) {
    const typed = isTareError(error)
      ? error
      : new SourceError("source/worker.failed", `Cannot embed: ${String(error)}`, { source: "worker" });
    scope.postMessage({ type: "failed", id, error: typed.toJSON() } satisfies FromEmbedder);
  } finally {
    running.delete(id);
  }
}

async function run(
  message: Exclude<ToEmbedder, { readonly type: "cancel" }>,
  signal: AbortSignal,
): Promise<FromEmbedder> {
  if (message.type === "load") {
    embedder = await loadEmbedder(portableHost, message.input, { ...message.options, signal });
    const { dimension, kernel, precision, maxTokens, notes } = embedder;
    return { type: "loaded", id: message.id, facts: { dimension, kernel, precision, maxTokens, notes } };
  }
  if (embedder === undefined) {
    throw new SourceError("source/worker.failed", "Cannot embed: nothing is loaded", { source: "worker" });
  }
  const vectors = await embedder.embed(message.texts, { signal });
  return { type: "embedded", id: message.id, vectors, notes: embedder.notes };
}
