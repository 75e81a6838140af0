import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Where this code lies, and what lies around it. Bundlers follow addresses that are made of `import.meta.url`, and
 * imports of packages, and put what they find into the bundle: workers and addons would be there without what they
 * need. So other files are found by paths, when they are needed, and a bundle that has none around it goes without.
 */

/** The file of this code; undefined if a bundler left nothing that tells it. */
function ownScript(): string | undefined {
  // Bundles in CommonJS have no import.meta.
  const url = import.meta.url as string | undefined;
  if (url !== undefined) return fileURLToPath(url);
  return typeof __filename === "string" ? __filename : undefined;
}

/** A path from the folder of this code. */
export function besideScript(path: string): string | undefined {
  const script = ownScript();
  return script === undefined ? undefined : join(dirname(script), path);
}

/** Loads optional packages from where this code lies, also in modules, and out of sight of bundlers. */
export function requireHere(): NodeJS.Require {
  return requireAt(ownScript() ?? join(process.cwd(), "script.js"));
}

/**
 * The folder of built code that this code belongs to: its own in the package, that of the package when the sources run
 * unbuilt. Undefined in the bundle of another program: files of the same names around it are that program's.
 */
export function builtFolder(): string | undefined {
  if (ownScript()?.endsWith(".ts") !== true) {
    const manifest = besideScript("../../package.json");
    return manifest !== undefined && versionAt(manifest) !== undefined ? besideScript(".") : undefined;
  }
  try {
    return dirname(requireHere().resolve("tare/node"));
  } catch {
    return undefined; // not built
  }
}

/**
 * `require` as a file at this path has it. Called in a roundabout way: webpack follows plain calls of `createRequire`,
 * and warns of paths that only the running program knows.
 */
export function requireAt(path: string): NodeJS.Require {
  return Reflect.apply(createRequire, undefined, [path]);
}

/** The package's version, read on demand; found upwards from the built files and from the sources. */
export function packageVersion(): string {
  for (const up of ["..", "../..", "../../..", "../../../.."]) {
    const path = besideScript(`${up}/package.json`);
    const version = path === undefined ? undefined : versionAt(path);
    if (version !== undefined) return version;
  }
  return "unknown";
}

/** The version in the package.json of tare at this path; undefined if there is none. */
function versionAt(path: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isPackage(parsed) && parsed.name === "tare" ? parsed.version : undefined;
  } catch {
    return undefined;
  }
}

function isPackage(value: unknown): value is { readonly name: string; readonly version: string } {
  return typeof value === "object" && value !== null && "name" in value && "version" in value;
}
