import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** Where `--install` puts the program; its crate is compiled from source, which takes some minutes on two cores. */
const INSTALLED = join(homedir(), ".cache", "tare-interop", "aerovault");

export function installReference(): void {
  execFileSync("cargo", ["install", "aerovault-cli", "--locked", "--root", INSTALLED], { stdio: "inherit" });
}

export interface Answer {
  readonly code: number | null;
  readonly text: string;
}

/** The reference's command line. It takes passwords only from a terminal, so util-linux's `script` gives it one. */
export class Reference {
  readonly #program: string;

  constructor(program: string) {
    this.#program = program;
  }

  /** The program of `AEROVAULT`, or the one that `--install` made; undefined if there is neither. */
  static find(): Reference | undefined {
    const program = process.env["AEROVAULT"] ?? join(INSTALLED, "bin", "aerovault");
    return existsSync(program) ? new Reference(program) : undefined;
  }

  /** Runs one verb of its `vault` group and types the passwords in turn. */
  run(args: readonly string[], ...passwords: readonly string[]): Promise<Answer> {
    const command = [this.#program, "vault", ...args].map(quote).join(" ");
    const child = spawn("script", ["-qec", command, "/dev/null"], { timeout: 120_000 });
    const pieces: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => pieces.push(piece));
    child.stdin.end(passwords.map((password) => `${password}\n`).join(""));
    return new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, text: Buffer.concat(pieces).toString() }));
    });
  }
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
