import { UsageError } from "../../src/base/errors.ts";
import { hubHeaders } from "../../src/bytes/http/hub.ts";
import { parseHttpUrl } from "../../src/bytes/http/url.ts";
import { type EnteredValue, parseEntered } from "../../src/operations/stamp.ts";
import type { Context } from "../context.ts";
import { readFlagText } from "./files.ts";

/** Names of tensors and entries, and the types of values, as flags and arguments have them. */
export { selectByName } from "../../src/operations/reading/glob.ts";
export {
  FLOAT_CHOICES,
  type FloatChoice,
  floatName,
} from "../../src/operations/reading/view.ts";

/** Globs over the paths of a vault. Slashes at the ends do not matter: listings put one after directories. */
export function entryGlobs(globs: readonly string[]): readonly string[] {
  return globs.map((glob) => glob.replace(/^\/+|\/+$/g, ""));
}

/** The values of `--set KEY=VALUE`, in the order in which they were typed. */
export function enteredValues(texts: readonly string[] = []): readonly (readonly [string, EnteredValue])[] {
  return texts.map((text) => {
    const at = text.indexOf("=");
    if (at >= 1) return [text.slice(0, at), parseEntered(text.slice(at + 1))] as const;
    const message = `Cannot use --set "${text}": must be KEY=VALUE`;
    throw new UsageError("usage/flag-value", message, { source: "command line" });
  });
}

/** Header names that carry secrets, which any process on the machine can read in argv. */
const SECRET = /^(authorization|proxy-authorization|cookie|x-api-key|.*token.*)$/i;

/** The headers for requests to the origin of `url`: --header-file, then --header, then HF_TOKEN for the hub. */
export async function collectHeaders(context: Context, url: string): Promise<Record<string, string>> {
  const { flags, env } = context;
  parseHttpUrl(url);
  const headers = new Map<string, string>();
  if (flags["header-file"] !== undefined) {
    for (const [name, value] of await readHeaderFile(flags["header-file"], context.signal))
      headers.set(name.toLowerCase(), value);
  }
  for (const text of flags.header ?? []) {
    const [name, value] = parseHeader(text, "--header");
    if (SECRET.test(name)) context.warn(secretWarning(name));
    headers.set(name.toLowerCase(), value);
  }
  return { ...hubHeaders(url, env), ...Object.fromEntries(headers) };
}

function secretWarning(name: string): string {
  return `tare: warning: ${name} on the command line can be read by other users of this machine; use --header-file`;
}

async function readHeaderFile(path: string, signal: AbortSignal): Promise<[name: string, value: string][]> {
  const action = `Cannot read "${path}" for --header-file`;
  const text = await readFlagText(path, { kind: "settings", action, signal });
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "" && !line.startsWith("#"));
  return lines.map((line) => parseHeader(line, `--header-file "${path}"`));
}

/** Errors never repeat the value: it may be a secret. */
export function parseHeader(text: string, from: string): [name: string, value: string] {
  const colon = text.indexOf(":");
  const name = text.slice(0, Math.max(colon, 0)).trim();
  const value = text.slice(colon + 1).trim();
  // RFC 9110 §5.6.2 token characters; §5.5 allows no line breaks or NUL in values.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is refused
  if (/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && !/[\u0000-\u0008\u000a-\u001f\u007f]/.test(value)) {
    return [name, value];
  }
  throw new UsageError("usage/header", `Cannot use a header of ${from}: must be "Name: value"`, {
    source: "command line",
  });
}
