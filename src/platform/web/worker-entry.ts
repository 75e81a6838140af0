import { SourceError } from "../../base/errors.ts";
import { blobSource } from "../../bytes/blob.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { ToWorker } from "../../workers/protocol.ts";
import { serveJobs } from "../../workers/serve.ts";

/** The script of a browser's worker: serves the portable engine over the message port. */

const scope = globalThis as unknown as DedicatedWorkerGlobalScope;

serveJobs(
  {
    post: (message, transfer = []) => scope.postMessage(message, [...transfer]),
    listen: (onMessage) => scope.addEventListener("message", (event: MessageEvent<ToWorker>) => onMessage(event.data)),
  },
  {
    engine: portableEngine(),
    async openDescriptor(descriptor) {
      if (descriptor.kind === "blob") return blobSource(descriptor.blob);
      const message = `Cannot open "${descriptor.path}": a browser has no paths`;
      throw new SourceError("source/worker.failed", message, { source: descriptor.path });
    },
  },
);
