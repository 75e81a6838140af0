import type { Bytes } from "../../src/base/bytes.ts";
import { type ErrorJson, isTareError } from "../../src/base/errors.ts";
import type { CallName, CallProgress, CallRequest, CallResult, FromReader, ToReader } from "../shared/protocol.ts";

/** What a call gets besides its request. */
export interface CallContext<N extends CallName = CallName> {
  readonly signal: AbortSignal;
  readonly progress: (progress: CallProgress<N>) => void;
  /** Asks the user for a password. */
  readonly askPassword: (label: string) => Promise<Bytes | undefined>;
}

export type CallTable = {
  readonly [N in CallName]: (request: CallRequest<N>, context: CallContext<N>) => Promise<CallResult<N>>;
};

/** The worker's end of the message channel. */
export interface ReaderPort {
  post(message: FromReader, transfer: ArrayBuffer[]): void;
  listen(listener: (message: ToReader) => void): void;
}

/** Answers calls until the worker ends; several may be in progress at a time. */
export function serveCalls(port: ReaderPort, table: CallTable): void {
  const running = new Map<number, AbortController>();
  const ask = passwordQuestions(port);
  const run = async (id: number, name: CallName, request: unknown): Promise<void> => {
    const controller = new AbortController();
    running.set(id, controller);
    try {
      const work = table[name] as (request: unknown, context: CallContext) => Promise<unknown>;
      const result = await work(request, {
        signal: controller.signal,
        progress: (progress) => port.post({ type: "progress", id, progress }, []),
        askPassword: (label) => ask.ask(label),
      });
      port.post({ type: "done", id, result }, buffersOf(result));
    } catch (error) {
      port.post({ type: "failed", id, error: errorJson(error) }, []);
    } finally {
      running.delete(id);
    }
  };
  port.listen((message) => {
    if (message.type === "call") void run(message.id, message.name, message.request);
    else if (message.type === "cancel") running.get(message.id)?.abort();
    else ask.answer(message.id, message.password);
  });
}

interface PasswordQuestions {
  ask(label: string): Promise<Bytes | undefined>;
  answer(id: number, password: Bytes | undefined): void;
}

/**
 * Several reads may need the same password at once. The user is asked once, and each read gets a copy that it may wipe.
 */
function passwordQuestions(port: ReaderPort): PasswordQuestions {
  const open = new Map<number, (password: Bytes | undefined) => void>();
  const byLabel = new Map<string, Promise<Bytes | undefined>>();
  let next = 1;
  return {
    async ask(label) {
      const known = byLabel.get(label);
      const id = next++;
      const asked =
        known ??
        new Promise<Bytes | undefined>((resolve) => {
          open.set(id, resolve);
          port.post({ type: "ask", id, label }, []);
        });
      byLabel.set(label, asked);
      return (await asked)?.slice();
    },
    answer(id, password) {
      // Forgotten before any read continues, so that the next question is asked again.
      byLabel.clear();
      open.get(id)?.(password);
      open.delete(id);
      // The waiting reads take a copy in this turn of the loop.
      setTimeout(() => password?.fill(0), 0);
    },
  };
}

/** Any other error is a mistake of ours. Its text still helps in a bug report. */
function errorJson(error: unknown): ErrorJson {
  if (isTareError(error)) return error.toJSON();
  const isAbort = error instanceof DOMException && error.name === "AbortError";
  const message = error instanceof Error ? error.message : String(error);
  return { type: "error", name: "Error", code: isAbort ? "aborted" : "internal/bug", message, at: { source: "" } };
}

/** Buffers of typed arrays directly in the result: moved, not copied. */
function buffersOf(result: unknown): ArrayBuffer[] {
  if (typeof result !== "object" || result === null) return [];
  const values: unknown[] = ArrayBuffer.isView(result) ? [result] : Object.values(result);
  const buffers = values
    .filter((value) => ArrayBuffer.isView(value))
    .filter(({ byteLength, buffer }) => buffer instanceof ArrayBuffer && buffer.byteLength === byteLength)
    .map(({ buffer }) => buffer as ArrayBuffer);
  return [...new Set(buffers)];
}
