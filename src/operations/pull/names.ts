import { encodeUtf8 } from "../../base/text.ts";
import { checkRelativeName } from "../../bytes/resolver.ts";
import { collisionError, longNameError, refusedNameError } from "./errors.ts";
/** Where the names of a set come from: what its index is called, and whom to blame. */
export interface NamedSet {
  readonly label: string;
  /** Id of the set's format. */
  readonly format: string;
  /** Of the index itself, which is written beside the files. */
  readonly index?: string | undefined;
}

/** Behind a file's name while it is fetched; `.tare-part.probe` is the longest. */
const WORK_FILE = /\.tare-[a-z]/i;
/** File systems hold 255 bytes; the names of work files are longer than the file's own by up to 20. */
const MAX_SEGMENT_BYTES = 230;
/** Of the whole path: systems hold 4096 bytes, of which the folder needs its share. */
const MAX_PATH_BYTES = 1024;
/** Some file systems take these for nothing, so that two names become one; terminals do not show them. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}|\p{Cf}/u;
const WILDCARD = /[<>"|?*]/;
/** What Windows calls a file of another name by: GIT~1 is .git. */
const SHORT_NAME = /^[^./]{1,8}~\d/;

/** What the files of a set are called, by the format of the set: no such set can have a part of another kind. */
const PARTS: Readonly<Record<string, string>> = {
  safetensors: "safetensors",
  aeroset: "aero",
  apr: "apr",
  gguf: "gguf",
};
/** PyTorch's shards have an index of the very form of SafeTensors' and say so in its name. */
const PYTORCH_INDEX = /\.bin\.index\.json$/i;
/** A number may follow where a file was cut. */
const CUT = "(\\.?(part|shard)?[-_.]?\\d{1,6})?";
/** Parts that are called by their digest. */
const DIGEST = /^(sha256[-_.])?[0-9a-f]{16,128}$/i;
/**
 * Folders whose files a program takes up because they lie there: interpreters, package managers, schedulers, desktops,
 * service managers. No part of a model belongs into one, whatever it is called.
 */
const ACTED_ON =
  /^(site-packages|dist-packages|__pycache__|__pypackages__|node_modules|cron\.\w+|(init|rc\d?|profile)\.d|systemd|autostart|launchagents|launchdaemons)$/i;

/** Refuses a name under which a pull cannot work, whoever gave it. */
export function checkWorkName(name: string, label: string): void {
  checkRelativeName(name, { source: label });
  if (WORK_FILE.test(name)) throw refusedNameError(name, label, "pull calls its own work files so");
  if (INVISIBLE.test(name)) throw refusedNameError(name, label, "it has characters that are not seen");
  const longest = Math.max(...name.split("/").map((segment) => encodeUtf8(segment).byteLength));
  if (longest > MAX_SEGMENT_BYTES) throw longNameError(name, label, { found: longest, allowed: MAX_SEGMENT_BYTES });
  const whole = encodeUtf8(name).byteLength;
  if (whole > MAX_PATH_BYTES) throw longNameError(name, label, { found: whole, allowed: MAX_PATH_BYTES });
}

/**
 * Judges the names that an index gives to files, all of them before the first is fetched. An index comes from a server:
 * it may name parts of a set of its own format, and nothing that a shell, an interpreter or another program would read by
 * itself. A list of what is allowed, as nobody knows all that is read: Python runs every .pth below site-packages.
 */
export function checkSetNames(names: readonly string[], set: NamedSet): void {
  const part = partName(set);
  for (const name of names) {
    checkWorkName(name, set.label);
    const fault = findFault(name, part);
    if (fault !== undefined) throw refusedNameError(name, set.label, fault);
  }
  checkDistinct(names, set);
}

/** What the parts of a set are called; of formats that have no sets, no name is allowed. */
function partName({ format, index = "" }: NamedSet): RegExp {
  const own = PARTS[format] ?? "(?!)";
  const extension = format === "safetensors" && PYTORCH_INDEX.test(index) ? `(${own}|bin)` : own;
  return new RegExp(`\\.${extension}${CUT}$`, "i");
}

function findFault(name: string, part: RegExp): string | undefined {
  const segments = name.split("/");
  if (segments.some((segment) => segment.startsWith("."))) return "it is hidden";
  if (WILDCARD.test(name)) return "it has a character that systems keep for themselves";
  if (segments.some((segment) => SHORT_NAME.test(segment)))
    return "it may be the short name of another file on Windows";
  if (segments.slice(0, -1).some((segment) => ACTED_ON.test(segment)))
    return "programs act on what lies in such a folder";
  const last = segments.at(-1) ?? "";
  return part.test(last) || DIGEST.test(last) ? undefined : "no part of such a set is called so";
}

/** Names are compared as file systems do that fold case and Unicode form; a file cannot be a folder as well. */
function checkDistinct(names: readonly string[], { label, index }: NamedSet): void {
  const files = new Map<string, string>();
  for (const name of index === undefined ? names : [...names, index]) {
    const key = foldName(name);
    const known = files.get(key);
    if (known !== undefined && known !== name) throw collisionError(name, label, known);
    files.set(key, name);
  }
  for (const [key, name] of files) {
    for (let end = key.indexOf("/"); end >= 0; end = key.indexOf("/", end + 1)) {
      const file = files.get(key.slice(0, end));
      if (file !== undefined) throw collisionError(name, label, file);
    }
  }
}

/** Upper case first: ß and SS, ſ and s are one to file systems that fold. */
function foldName(name: string): string {
  return name.normalize("NFC").toUpperCase().toLowerCase().normalize("NFC");
}
