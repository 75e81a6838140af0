import { printable } from "../../../src/base/text.ts";
import type { Source } from "../../../src/bytes/source.ts";
import { SIDECAR_SUFFIX } from "../../../src/formats/aerocorrect/layout.ts";
import type { Sidecar } from "../../../src/formats/aerocorrect/sidecar.ts";
import type { Finding } from "../../../src/model/finding.ts";
import type { FileVerdict } from "../../../src/operations/correct.ts";
import type { Context } from "../../context.ts";
import { formatSize } from "../../render/sizes.ts";

/** A file and its sidecar, closed by the caller. */
export interface ProtectedFile {
  readonly file: Source;
  readonly sidecar: Sidecar;
  close(): Promise<void>;
}

/** Where the sidecar of a file is unless somebody says otherwise. */
export function sidecarPath(file: string, given: string | undefined): string {
  return given ?? `${file}${SIDECAR_SUFFIX}`;
}

/** Opens a file with its sidecar; either that is not there is an error (exit 9). */
export async function openProtected(context: Context, path: string, beside: string): Promise<ProtectedFile> {
  const [{ openFile }, { openSidecarFile }, { readSidecar }, engine] = await Promise.all([
    import("../../../src/platform/node/file-source.ts"),
    import("../../../src/platform/node/sidecar-file.ts"),
    import("../../../src/formats/aerocorrect/read.ts"),
    context.engine(),
  ]);
  const { signal } = context;
  const opened: Source[] = [];
  const close = async (): Promise<void> => {
    for (const source of opened) await source.close();
  };
  try {
    const file = await openFile(path, { signal });
    opened.push(file);
    const origin = beside === sidecarPath(path, undefined) ? "beside" : "named";
    const source = await openSidecarFile(beside, origin, signal);
    opened.push(source);
    return { file, sidecar: await readSidecar(source, engine), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What scripts get of an examination. */
export function healthFacts({ health, longestBurst, sidecar }: FileVerdict): Readonly<Record<string, unknown>> {
  return { sidecarVersion: sidecar.version, segments: sidecar.segments.length, health, longestBurst };
}

/** What a person who relies on parity has to know about it. */
export function burstText(longestBurst: number): string {
  return `up to ${formatSize(longestBurst)} of damage in a row can be healed wherever it is`;
}

/** Says what is wrong with the sidecar itself: the file may be whole all the same. */
export function warnOf(context: Context, findings: readonly Finding[]): void {
  for (const { severity, message, hint } of findings) {
    if (severity === "warning") context.warn(`warning: ${printable(message)}${hint === undefined ? "" : `; ${hint}`}`);
  }
}
