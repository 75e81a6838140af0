import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** The built program, as users run it. */
export const TARE = new URL("../../dist/bin/tare.js", import.meta.url).pathname;

export interface Run {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly input?: Uint8Array | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** Runs the program to its end. */
export function tare(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  if (!existsSync(TARE)) throw new Error("dist/bin/tare.js is missing: run `npm run build` first");
  const child = spawn(process.execPath, [TARE, ...args], {
    cwd: options.cwd,
    // Without a cache, so that no test finds what another one left; tests of the cache turn it on.
    env: { ...process.env, NO_COLOR: "1", HF_TOKEN: "", TARE_CACHE_SIZE: "0", ...options.env },
  });
  child.stdin.on("error", () => undefined); // a program that ends without reading its input is fine
  child.stdin.end(options.input ?? "");
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (piece: Buffer) => out.push(piece));
  child.stderr.on("data", (piece: Buffer) => err.push(piece));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      const stdout = Buffer.concat(out);
      resolve({ code, stdout, out: stdout.toString(), err: Buffer.concat(err).toString() });
    });
  });
}

/** A folder of its own for one test, gone afterwards. */
export function scratch(): (name: string, bytes?: Uint8Array | string) => string {
  const folder = mkdtempSync(join(tmpdir(), "tare-cli-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return (name, bytes) => {
    const path = join(folder, name);
    if (bytes !== undefined) writeFileSync(path, bytes);
    return path;
  };
}
