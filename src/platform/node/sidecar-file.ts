import type { Source } from "../../bytes/source.ts";
import { openFile } from "./file-source.ts";

/** A sidecar that was named may come out of a pipe, but a device never ends; longer ones are files. */
const MAX_PIPED_BYTES = 256 << 20;

/** Opens a sidecar that somebody "named", or whatever stands "beside" a file under that name. */
export function openSidecarFile(
  path: string,
  origin: "named" | "beside",
  signal?: AbortSignal | undefined,
): Promise<Source> {
  return openFile(path, { signal, ...(origin === "named" ? { maxSpoolBytes: MAX_PIPED_BYTES } : { pipes: "refuse" }) });
}
