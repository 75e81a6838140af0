import { useEffect, useState } from "preact/hooks";
import type { CallName, CallProgress, CallRequest, CallResult } from "../shared/protocol.ts";
import type { ReaderClient } from "./reader-client.ts";

export interface CallState<N extends CallName> {
  readonly result: CallResult<N> | undefined;
  readonly error: unknown;
  readonly progress: CallProgress<N> | undefined;
}

/**
 * Calls the reader, and calls again when `key` changes; a call whose answer is no longer needed is cancelled. The old
 * result stays until the new one is there, so that nothing flickers.
 */
export function useCall<N extends CallName>(
  reader: ReaderClient,
  name: N,
  request: CallRequest<N> | undefined,
  key: string,
): CallState<N> {
  const [state, setState] = useState<CallState<N>>({ result: undefined, error: undefined, progress: undefined });
  useEffect(() => {
    if (request === undefined) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    reader.call(name, request, { signal, onProgress: (progress) => setState((old) => ({ ...old, progress })) }).then(
      (result) => setState({ result, error: undefined, progress: undefined }),
      (error: unknown) => {
        if (!signal.aborted) setState({ result: undefined, error, progress: undefined });
      },
    );
    return () => controller.abort();
  }, [reader, name, key]);
  return state;
}
