import { createRequire } from "node:module";

/**
 * An addon's binary for the usual kind of Linux, without the addon's own loader: that is some hundred lines which are
 * compiled each time, and some write a diagnostic report of the process to tell the C library, 6 ms in every thread.
 * Undefined where another binary is installed, which the loader finds, or none.
 */
export function addonBinary(packageName: string): unknown {
  if (process.platform !== "linux") return undefined;
  try {
    const beside = createRequire(createRequire(import.meta.url).resolve(packageName));
    return beside(`${packageName}-linux-${process.arch}-gnu`);
  } catch {
    return undefined;
  }
}
