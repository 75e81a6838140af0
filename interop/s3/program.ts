import { type ChildProcess, spawn } from "node:child_process";

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly seconds: number;
}

/** tare, as users run it, with a store in its environment. */
export class Program {
  readonly #path: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(path: string, env: Readonly<Record<string, string>>) {
    this.#path = path;
    this.#env = { ...process.env, NO_COLOR: "1", ...env };
  }

  /** Runs the program to its end, however it ends. */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    return this.start(args, env).ended;
  }

  start(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): { readonly child: ChildProcess; readonly ended: Promise<Ended> } {
    const start = performance.now();
    const child = spawn(process.execPath, [this.#path, ...args], { env: { ...this.#env, ...env } });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => out.push(piece));
    child.stderr.on("data", (piece: Buffer) => err.push(piece));
    const ended = new Promise<Ended>((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => {
        const seconds = (performance.now() - start) / 1000;
        resolve({ code, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString(), seconds });
      });
    });
    return { child, ended };
  }
}

/** Empty if the run ended with the expected code; else what it printed. */
export function expectCode({ code, err, out }: Ended, wanted: number): string[] {
  return code === wanted ? [] : [`exit ${code}, wanted ${wanted}: ${(err || out).trim().split("\n")[0]}`];
}
