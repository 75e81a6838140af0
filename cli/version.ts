import { readFileSync } from "node:fs";

/** The package's version, read when asked for: from dist/bin, dist/cli and the sources it is found upwards. */
export function readVersion(): string {
  for (const path of ["../package.json", "../../package.json"]) {
    try {
      const parsed: unknown = JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
      if (isPackage(parsed) && parsed.name === "tare") return parsed.version;
    } catch {
      // Not at this level: the next one up is tried.
    }
  }
  return "unknown";
}

function isPackage(value: unknown): value is { readonly name: string; readonly version: string } {
  return typeof value === "object" && value !== null && "name" in value && "version" in value;
}
