import { dirname, join } from "node:path";
import { requireAt, requireHere } from "../own-script.ts";
import type { AddonBindings } from "./zstd.ts";

/**
 * Loads an addon's binary for the usual kind of Linux without the addon's own loader. Such a loader is some hundred
 * lines that are compiled each time, and some write a diagnostic report of the process to detect the C library, 6 ms in
 * every thread. Undefined if no such binary is installed: the loader may find another one.
 */
export function addonBinary(packageName: string): unknown {
  if (process.platform !== "linux") return undefined;
  try {
    const beside = requireAt(requireHere().resolve(packageName));
    return beside(`${packageName}-linux-${process.arch}-gnu`);
  } catch {
    return undefined;
  }
}

type Addon = typeof import("@napi-rs/blake-hash");

/** The optional addon; rejects if it is not installed. */
export async function loadBlakeAddon(): Promise<Addon> {
  const name = "@napi-rs/blake-hash";
  return (addonBinary(name) ?? requireHere()(name)) as Addon;
}

/** The native code of @cloudpss/zstd, below the functions that the package wraps around it. */
export interface ZstdAddon extends AddonBindings {
  compress(bytes: Buffer, level: number): Buffer;
  /** Refuses a frame that declares more than `maxBytes`. */
  decompress(bytes: Buffer, maxBytes: number): Buffer;
}

/**
 * The optional addon; rejects if it is not installed. For the usual kind of Linux, its binary is loaded by its name: the
 * package lists folders to find it, which adds 8 ms to every command that opens an AERO file.
 */
export async function loadZstdAddon(): Promise<ZstdAddon> {
  const load = requireHere();
  const manifest = load.resolve("@cloudpss/zstd/package.json");
  const folder = dirname(manifest);
  try {
    if (process.platform === "linux" && process.arch === "x64") {
      return load(join(folder, "prebuilds/linux-x64/@cloudpss+zstd.glibc,true.node")) as ZstdAddon;
    }
  } catch {
    // Another C library: the finder that the package uses knows the name.
  }
  const find = requireAt(manifest)("node-gyp-build") as (folder: string) => ZstdAddon;
  return find(folder);
}
