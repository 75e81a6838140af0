import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { VIEWER } from "./chromium.ts";

/** Kernels are embedded as base64: runs this long are WebAssembly, not script. */
const WASM = /[A-Za-z0-9+/]{400,}={0,2}/g;

/** Bytes of the scripts among these files, each counted once, as gzip sends them; compiled kernels are left out. */
export function scriptBytes(names: Iterable<string>): number {
  const scripts = [...new Set(names)].filter((name) => name.endsWith(".js"));
  return scripts.reduce((sum, name) => {
    const text = readFileSync(join(VIEWER, name), "utf8").replace(WASM, "");
    return sum + gzipSync(text, { level: 9 }).byteLength;
  }, 0);
}
