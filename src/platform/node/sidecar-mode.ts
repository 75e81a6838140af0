import { stat } from "node:fs/promises";
import { fileError } from "./errors.ts";

/**
 * Permission bits that a sidecar has at most: those of the file that it protects. Parity of a short file is the file times
 * a constant, and that of a vault holds its key slots: whoever may not read the one must not read the other.
 */
export async function sidecarMode(path: string): Promise<number> {
  const { mode } = await stat(path).catch((error: unknown) => {
    throw fileError(error, `Cannot open "${path}"`, { source: path });
  });
  return (mode & 0o666) | 0o600;
}
