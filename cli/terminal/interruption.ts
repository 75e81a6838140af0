import { setTimeout as sleep } from "node:timers/promises";
import { SIGNAL_EXIT } from "../exit-codes.ts";

/** How long an interrupted command may take to clean up before the process ends anyway. */
const GRACE_MS = 2000;
/** How often an interrupted command that is done checks whether its system calls are done. */
const POLL_MS = 10;

type EndSignal = keyof typeof SIGNAL_EXIT;

export interface InterruptionOptions {
  /** Reports the interruption if the command cannot do it itself. Synchronous, as the process ends right after it. */
  readonly tell: () => void;
  /** How long the command may take to put things away; two seconds where absent. */
  readonly graceMs?: number | undefined;
}

/**
 * Ctrl-C and similar signals. The first one lets the command unwind, for a while; a second one ends the process at
 * once. Node's own exit waits for running calls of its threads and for workers, and some never end: opening a pipe
 * without a writer, or a file on a server that is gone. Then the process ends by the signal that it received.
 */
export class Interruption {
  readonly #controller = new AbortController();
  /** Run when the process ends, however it ends: they remove unfinished files. */
  readonly #cleanups = new Set<() => void>();
  readonly #workers = new Set<object>();
  readonly #tell: () => void;
  readonly #graceMs: number;
  #first: EndSignal | undefined;
  #deadline = 0;

  constructor({ tell, graceMs = GRACE_MS }: InterruptionOptions) {
    this.#tell = tell;
    this.#graceMs = graceMs;
    for (const name of endSignals()) process.on(name, () => this.#receive(name));
    process.on("exit", () => this.#cleanUp());
    process.on("worker", (worker) => {
      this.#workers.add(worker);
      worker.once("exit", () => this.#workers.delete(worker));
    });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly onExit = (cleanup: () => void): void => {
    this.#cleanups.add(cleanup);
  };

  /** Ends the process: with this exit code, or with that of the signal if there was one. */
  async end(exitCode: number): Promise<never> {
    if (this.#first === undefined) {
      // While Node waits for its threads it calls no listener: the system must handle Ctrl-C itself.
      stopListening();
      process.exit(exitCode);
    }
    while (this.#mayHang() && performance.now() < this.#deadline) await sleep(POLL_MS);
    return this.#endAfterGrace(this.#first);
  }

  #receive(name: EndSignal): void {
    if (this.#first !== undefined) this.#endBySignal(name);
    this.#first = name;
    this.#deadline = performance.now() + this.#graceMs;
    process.exitCode = SIGNAL_EXIT[name];
    this.#controller.abort();
    setTimeout(() => {
      this.#tell();
      this.#endAfterGrace(name);
    }, this.#graceMs).unref();
  }

  #endAfterGrace(name: EndSignal): never {
    if (this.#mayHang()) this.#endBySignal(name);
    stopListening();
    process.exit(SIGNAL_EXIT[name]);
  }

  /** The system does this before the call returns. Windows has no such signals: there the exit code tells. */
  #endBySignal(name: EndSignal): never {
    stopListening();
    this.#cleanUp();
    if (process.platform !== "win32" || this.#mayHang()) process.kill(process.pid, name);
    process.exit(SIGNAL_EXIT[name]);
  }

  /** True if a thread has a file system call under way, or a worker is running. */
  #mayHang(): boolean {
    return this.#workers.size > 0 || process.getActiveResourcesInfo().some((kind) => kind.startsWith("FSReq"));
  }

  #cleanUp(): void {
    for (const cleanup of this.#cleanups) cleanup();
    this.#cleanups.clear();
  }
}

function stopListening(): void {
  for (const name of endSignals()) process.removeAllListeners(name);
}

function endSignals(): EndSignal[] {
  return Object.keys(SIGNAL_EXIT) as EndSignal[];
}
