import { setTimeout as sleep } from "node:timers/promises";

/** How long an interrupted command may take to put things away before the process ends anyway. */
const GRACE_MS = 2000;
/** How often an interrupted command that is done looks whether its system calls are. */
const POLL_MS = 10;

/** Signals that ask the process to end, with the exit codes by which shells tell them: 128 and the signal's number. */
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

type EndSignal = keyof typeof EXIT_CODES;

export interface InterruptionOptions {
  /** Tells that the command was interrupted, where it does not get to it itself. At once, as the process ends after it. */
  readonly tell: () => void;
}

/**
 * Ctrl-C and its relatives. The first one lets the command unwind, for a while; a second one ends the process at once.
 * Node's own exit waits for calls that its threads have under way, and for workers; opening a pipe that has no
 * writer, or a file of a server that is gone, takes for ever. Then the process ends by the signal that it was sent.
 */
export class Interruption {
  readonly #controller = new AbortController();
  /** Run when the process ends, however it does: unfinished files are removed. */
  readonly #cleanups = new Set<() => void>();
  readonly #workers = new Set<object>();
  readonly #tell: () => void;
  #first: EndSignal | undefined;
  #deadline = 0;

  constructor({ tell }: InterruptionOptions) {
    this.#tell = tell;
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

  /** Ends the process: with this exit code, or with that of the signal where there was one. */
  async end(exitCode: number): Promise<never> {
    if (this.#first === undefined) {
      // While Node waits for its threads no listener is called: the system must answer Ctrl-C itself.
      stopListening();
      process.exit(exitCode);
    }
    while (this.#mayHang() && performance.now() < this.#deadline) await sleep(POLL_MS);
    return this.#endNow(this.#first);
  }

  #receive(name: EndSignal): void {
    if (this.#first !== undefined) this.#endNow(this.#first);
    this.#first = name;
    this.#deadline = performance.now() + GRACE_MS;
    process.exitCode = EXIT_CODES[name];
    this.#controller.abort();
    setTimeout(() => {
      this.#tell();
      this.#endNow(name);
    }, GRACE_MS).unref();
  }

  #endNow(name: EndSignal): never {
    stopListening();
    this.#cleanUp();
    if (this.#mayHang()) process.kill(process.pid, name);
    process.exit(EXIT_CODES[name]);
  }

  /** True where a thread has a call of the file system under way, or does work of its own. */
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
  return Object.keys(EXIT_CODES) as EndSignal[];
}
