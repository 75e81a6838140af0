import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { SignedSample } from "./signatures.ts";

const SCRIPT = fileURLToPath(new URL("botocore_check.py", import.meta.url));

/** How the script reaches a store. */
export interface StoreAccess {
  readonly endpoint: string;
  readonly id: string;
  readonly secret: string;
  readonly bucket: string;
}

/** Amazon's own client, boto3, as the second opinion. */
export class Amazon {
  readonly #python: string;

  private constructor(python: string) {
    this.#python = python;
  }

  /** Undefined if Python or boto3 is missing. */
  static find(): Amazon | undefined {
    return spawnSync("python3", ["-c", "import boto3"]).status === 0 ? new Amazon("python3") : undefined;
  }

  signatures(requests: readonly SignedSample[]): string[] {
    return this.#ask({ question: "signatures", requests });
  }

  makeBucket(store: StoreAccess): void {
    this.#ask({ question: "bucket", store });
  }

  digests(store: StoreAccess, keys: readonly string[]): Record<string, string | null> {
    return this.#ask({ question: "digests", store, keys });
  }

  uploads(store: StoreAccess): string[] {
    return this.#ask({ question: "uploads", store });
  }

  /** Seconds of the fastest download of the object. */
  downloadSeconds(store: StoreAccess, key: string): number {
    return this.#ask({ question: "download", store, key });
  }

  #ask<T>(question: unknown): T {
    const output = execFileSync(this.#python, [SCRIPT], {
      input: JSON.stringify(question),
      encoding: "utf8",
      maxBuffer: 1 << 26,
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
    });
    return JSON.parse(output) as T;
  }
}
