import { type Location, SourceError } from "../base/errors.ts";
import { printable } from "../base/text.ts";

/** Names that Windows gives to devices, with or without an extension ("NUL.gguf"), in any case. */
const RESERVED_ON_WINDOWS =
  /^(con|prn|aux|nul|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3]|conin\$|conout\$)(\.|$)/i;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

/**
 * Refuses a name that could lead out of a folder, or that means something else on another system: absolute
 * paths, drive letters, "." and "..", empty segments, backslashes, control characters, device names.
 * Resolvers and Outputs call it on every name, because those come out of files that anyone may have written.
 * `own` is the name of the file itself, one component of a path that somebody opened: whatever it is called, it exists, and
 * so may what begins like it ("a:b.gguf.sig").
 */
export function checkRelativeName(name: string, at: Location, own?: string): void {
  const isOwn = own !== undefined && own !== "" && name.startsWith(own);
  const fault = findFault(isOwn ? `own${name.slice(own.length)}` : name);
  if (fault === undefined) return;
  throw escapeError(name, fault, at);
}

/** The error for a name that leaves its folder, by spelling or through a link. */
export function escapeError(name: string, reason: string, at: Location): SourceError {
  const message = `Cannot use "${printable(name)}" as the name of a file beside this one: ${reason}`;
  return new SourceError("source/resolver.escape", message, at, {
    hint: "Files may only refer to their own folder; this name was refused before anything was opened",
  });
}

function findFault(name: string): string | undefined {
  if (name === "") return "it is empty";
  if (CONTROL.test(name)) return "it contains a control character";
  if (name.includes("\\")) return "it contains a backslash";
  if (name.startsWith("/")) return "it is absolute";
  // Also refuses "https://…" and the alternate data streams of NTFS.
  if (name.includes(":")) return "it contains a colon";
  for (const segment of name.split("/")) {
    const fault = findSegmentFault(segment);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function findSegmentFault(segment: string): string | undefined {
  if (segment === "") return "it has an empty segment";
  if (segment === "." || segment === "..") return `it has a "${segment}" segment`;
  // Windows drops trailing dots and spaces, so ".. " would become "..".
  if (/[. ]$/.test(segment)) return "a segment ends in a dot or a space";
  if (RESERVED_ON_WINDOWS.test(segment)) return "it is the name of a device on Windows";
  return undefined;
}
