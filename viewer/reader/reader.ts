import type { FromReader, ToReader } from "../shared/protocol.ts";
import { type OpenTargets, openTargets } from "./open-targets.ts";
import { type CallTable, serveCalls } from "./serve-calls.ts";

/** The message channel of a worker. */
export interface WorkerScope {
  postMessage(message: FromReader, transfer: ArrayBuffer[]): void;
  addEventListener(type: "message", listener: (event: MessageEvent<ToReader>) => void): void;
}

/**
 * Answers the page as long as the worker lives. Only this call has an effect, because other scripts share the code
 * around it.
 */
export function startReader(scope: WorkerScope): void {
  serveCalls(
    {
      post: (message, transfer) => scope.postMessage(message, transfer),
      listen: (listener) => scope.addEventListener("message", (event) => listener(event.data)),
    },
    callsOn(openTargets()),
  );
}

function callsOn(targets: OpenTargets): CallTable {
  return {
    open: (request, context) => targets.open(request, context),
    close: ({ target }) => targets.close(target),
    layout: async (request) => (await import("../pages/layout-table.ts")).layoutTable(targets.get(request.target)),
    verify: async (request, context) =>
      (await import("../pages/verifying.ts")).verifyTarget(targets.get(request.target), targets.engine, context),
    tensors: async (request) => (await import("../pages/tensor-table.ts")).tensorTable(targets.model(request.target)),
    sortTensors: async (request) =>
      (await import("../pages/tensor-table.ts")).sortTensors(targets.model(request.target), request.key),
    statistics: async (request, context) =>
      (await import("../pages/tensor-reads.ts")).tensorStatistics(targets.model(request.target), request, context),
    heatMap: async (request, context) =>
      (await import("../pages/tensor-reads.ts")).heatMap(targets.get(request.target), request, context.signal),
    slice: async (request, context) =>
      (await import("../pages/tensor-reads.ts")).valueSlice(targets.model(request.target), request, context.signal),
    blocks: async (request, context) =>
      (await import("../pages/tensor-reads.ts")).blockTable(targets.model(request.target), request, context.signal),
    downloadTensor: async (request, context) =>
      (await import("../pages/downloads.ts")).downloadTensor(targets.model(request.target), request, context),
    metadata: async (request) =>
      (await import("../pages/metadata-tree.ts")).metadataNodes(targets.model(request.target).metadata, request),
    searchMetadata: async (request, context) =>
      (await import("../pages/metadata-tree.ts")).searchMetadata(
        targets.model(request.target).metadata,
        request.text,
        context.signal,
      ),
    hex: async (request, context) =>
      (await import("../pages/hex-page.ts")).hexPage(targets.get(request.target), request, context.signal),
    fields: async (request, context) =>
      (await import("../pages/hex-page.ts")).fieldsOf(targets.get(request.target), request, context.signal),
    compare: async (request, context) =>
      (await import("../pages/comparing.ts")).compare(targets.get(request.a), targets.get(request.b), context),
    entries: async (request) => (await import("../pages/vault-entries.ts")).entryRows(targets.archive(request.target)),
    preview: async (request, context) =>
      (await import("../pages/vault-entries.ts")).preview(
        targets.archive(request.target),
        request.path,
        context.signal,
      ),
    downloadEntry: async (request, context) =>
      (await import("../pages/downloads.ts")).downloadEntry(targets.archive(request.target), request.path, context),
    embed: async (request, context) =>
      (await import("../pages/sentences.ts")).similarities(targets.get(request.target), request.texts, context.signal),
  };
}
