import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { AddonBindings } from "./thread-zstd.ts";

/** The machine code of @cloudpss/zstd, below the functions that the package wraps around it. */
export interface ZstdAddon extends AddonBindings {
  compress(bytes: Buffer, level: number): Buffer;
  /** Refuses a frame that declares more than `maxBytes`. */
  decompress(bytes: Buffer, maxBytes: number): Buffer;
}

/** The optional addon; rejects where it is not installed. */
export async function loadZstdAddon(): Promise<ZstdAddon> {
  return loadBinary() ?? ((await import("@cloudpss/zstd/napi"))._NapiBindings as ZstdAddon);
}

/**
 * The binary for the usual kind of Linux by its name: finding it by listing folders, through modules of another kind,
 * takes 8 ms of every command that opens an AERO file. Where it has another name, the package finds it.
 */
function loadBinary(): ZstdAddon | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  try {
    const load = createRequire(import.meta.url);
    const folder = dirname(load.resolve("@cloudpss/zstd/package.json"));
    return load(join(folder, "prebuilds/linux-x64/@cloudpss+zstd.glibc,true.node"));
  } catch {
    return undefined;
  }
}
