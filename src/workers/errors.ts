import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of the worker pool. */
export const WORKER_ERRORS = {
  "source/worker.failed": {
    what: "A worker thread ended, or failed in a way that is not an error of the file, while it was at work.",
    why: "The system may have ended it for lack of memory; otherwise it is a defect of tare.",
    fix: "Run the command again, with --concurrency 1 if it happens again, and report it.",
  },
  "source/worker.unavailable": {
    what: "Worker threads cannot be started here.",
    why: "The worker script is missing, or the host forbids workers. Work is then done on the calling thread.",
    fix: "Nothing to do: this is seen only by code that uses a worker pool directly.",
  },
  "usage/worker.request": {
    what: "Work for a worker holds something that cannot be sent to it, such as a function or a detached buffer.",
    why: "What crosses to a worker is copied by the structured clone algorithm.",
    fix: "Send plain data, and buffers that were not transferred before.",
  },
  "usage/worker.closed": {
    what: "The worker pool or the engine was closed while work was waiting or running.",
    why: "Closing ends every worker.",
    fix: "Close the engine after everything that uses it has finished.",
  },
} as const satisfies ErrorCatalog;
