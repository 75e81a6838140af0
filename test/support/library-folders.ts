import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { callTare } from "../cli/run-tare.ts";

/** Two folders with the same files for each test: the functions run in one, the commands in the other. */
export interface TwoFolders {
  readonly ours: string;
  readonly theirs: string;
  /** A path in the functions' folder. */
  at(name: string): string;
  bytesOf(name: string): Uint8Array<ArrayBuffer>;
  /** Runs in the functions' folder, so that paths in results are the same. */
  inOurs<T>(call: () => Promise<T>): Promise<T>;
}

/** Models of every kind, a vault and keys, made once for a file of tests and copied for each test. */
export function twoFolders(): TwoFolders {
  let folder = "";
  let count = 0;
  const placeOf = (name: string): string => join(folder, `${name}-${count}`);
  const made = async (...args: readonly string[]): Promise<void> => {
    const { code, err } = await callTare(args, { cwd: folder });
    if (code !== 0) throw new Error(err);
  };
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "tare-library-move-"));
    await made("demo", "demo");
    await made("convert", "demo/demo.safetensors", "m.safetensors");
    await made("convert", "demo/demo.safetensors", "m.gguf");
    await made("convert", "demo/demo.safetensors", "m.apr");
    await made("convert", "demo/demo.safetensors", "m.aero", "--tensor-hashes");
    await made("keygen", "-o", "release");
    await made("vault", "create", "v.aerovault", "--no-encryption");
    await made("vault", "add", "v.aerovault", "m.gguf", "release.pub", "--no-encryption", "--to", "in");
  });
  beforeEach(() => {
    count++;
    for (const place of ["ours", "theirs"].map(placeOf)) {
      mkdirSync(place);
      for (const name of readdirSync(folder).filter((file) => file.includes(".")))
        copyFileSync(join(folder, name), join(place, name));
    }
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  return {
    get ours() {
      return placeOf("ours");
    },
    get theirs() {
      return placeOf("theirs");
    },
    at: (name) => join(placeOf("ours"), name),
    bytesOf: (name) => new Uint8Array(readFileSync(join(placeOf("ours"), name))),
    async inOurs(call) {
      const here = process.cwd();
      process.chdir(placeOf("ours"));
      try {
        return await call();
      } finally {
        process.chdir(here);
      }
    },
  };
}

/** Everything below a folder. */
export function namesIn(place: string): string[] {
  return readdirSync(place, { recursive: true, encoding: "utf8" }).sort();
}
