import { createRequire } from "node:module";

type Addon = typeof import("@napi-rs/blake-hash");

/** The optional addon; rejects where it is not installed. */
export async function loadBlakeAddon(): Promise<Addon> {
  return loadBinary() ?? (await import("@napi-rs/blake-hash"));
}

/**
 * The addon's binary for the usual kind of Linux, without its own loader: that writes a diagnostic report of the process
 * to tell the C library, 6 ms in every thread. Where another binary is installed, the loader finds it.
 */
function loadBinary(): Addon | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const beside = createRequire(createRequire(import.meta.url).resolve("@napi-rs/blake-hash"));
    return beside(`@napi-rs/blake-hash-linux-${process.arch}-gnu`);
  } catch {
    return undefined;
  }
}
