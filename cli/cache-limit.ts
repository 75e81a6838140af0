import { CACHE_BYTES } from "../src/platform/node/disk-cache.ts";
import type { Environment } from "./context.ts";
import { parseSize } from "./quantities.ts";

/** Bytes that the disk cache may hold: what TARE_CACHE_SIZE says, else 2 GB. 0 turns the cache off. */
export function cacheLimit(env: Environment): number {
  const text = env["TARE_CACHE_SIZE"];
  return text === undefined || text === "" ? CACHE_BYTES : parseSize(text, "TARE_CACHE_SIZE");
}
