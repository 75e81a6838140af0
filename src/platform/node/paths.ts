import { fileURLToPath } from "node:url";
import { UsageError } from "../../base/errors.ts";
import { INNER_MARK } from "../../bytes/resolver.ts";
import { refuseAddress } from "./files/output-place.ts";

/**
 * The path that a `file:` address names (RFC 8089); any other text as it is. What follows `::` is a path inside an
 * archive, which has no escapes.
 */
export function pathOf(text: string | URL): string {
  const typed = String(text);
  if (!/^file:\/\//i.test(typed)) return typed;
  const cut = typed.indexOf(INNER_MARK);
  return cut < 0 ? pathOfAddress(typed) : pathOfAddress(typed.slice(0, cut)) + typed.slice(cut);
}

function pathOfAddress(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || url.host !== "") {
    throw refused(address, "its host must be this machine: nothing, or localhost", "Write file:///PATH");
  }
  if (/[?#]/.test(address)) {
    throw refused(
      address,
      "it has a question mark or a number sign",
      "Write %3F and %23, if they are part of the name",
    );
  }
  try {
    return fileURLToPath(url);
  } catch (error) {
    const hint = "Write % as %25, if it is part of the name";
    throw refused(address, "its percent escapes name no path", hint, error);
  }
}

function refused(address: string, reason: string, hint: string, cause?: unknown): UsageError {
  const shown = address.replace(/\/\/.*@/s, "//…@");
  const message = `Cannot use "${shown}" as a path: ${reason}`;
  return new UsageError("usage/file-url", message, { source: shown }, { hint, cause });
}

/** A path to write to. An address would become folders named after its parts, including a password. */
export function writtenPath(text: string | URL): string {
  const path = pathOf(text);
  refuseAddress(path, "none");
  return path;
}

/** The path that an argument names; refuses what is no text, before anything is opened. */
export function checkPath(verb: string, name: string, value: unknown): string {
  if (value instanceof URL || (typeof value === "string" && value !== "")) return pathOf(value);
  throw new UsageError("usage/option-value", `Cannot ${verb}: ${name} must be text`, { source: verb, path: name });
}

/** The same options, with the paths that file URLs among them name. */
export function withPaths<O extends object, K extends keyof O>(options: O, ...names: readonly K[]): O {
  const paths = names.filter((name) => typeof options[name] === "string");
  return { ...options, ...Object.fromEntries(paths.map((name) => [name, pathOf(options[name] as string)])) };
}
