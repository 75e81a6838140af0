import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

/** Requests and body bytes that left the server. */
export interface Tally {
  readonly requests: number;
  readonly bytes: number;
}

/** The range server in its own process, so that neither side shares a thread with it. */
export class RangeServer {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** `delay` is the wait before every reply, in milliseconds. */
  static async start(file: string, delay = 0): Promise<RangeServer> {
    const script = fileURLToPath(new URL("./range-server.ts", import.meta.url));
    const child = fork(script, [file, String(delay)], { execArgv: ["--import", "tsx"] });
    const [port] = (await once(child, "message")) as [number];
    return new RangeServer(child, `http://127.0.0.1:${port}/${basename(file)}`);
  }

  /** Requests and bytes since the last call. */
  async take(): Promise<Tally> {
    const reply = once(this.#child, "message");
    this.#child.send("take");
    const [tally] = (await reply) as [Tally];
    return tally;
  }

  async stop(): Promise<void> {
    const gone = once(this.#child, "exit");
    this.#child.disconnect();
    await gone;
  }
}
