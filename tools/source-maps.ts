import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface SourceMap {
  readonly sources: readonly string[];
  sourcesContent?: (string | null)[];
}

/** Takes the bytes of compiled kernels out of the source maps in a folder: the scripts have them already. */
export function leaveOutKernels(directory: string): void {
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".map")) continue;
    const path = join(directory, name);
    const map = JSON.parse(readFileSync(path, "utf8")) as SourceMap;
    const isKernel = (i: number) => map.sources[i]?.includes("kernels/generated/") === true;
    if (!map.sources.some((_, i) => isKernel(i))) continue;
    map.sourcesContent = map.sourcesContent?.map((text, i) => (isKernel(i) ? null : text)) ?? [];
    writeFileSync(path, JSON.stringify(map));
  }
}
