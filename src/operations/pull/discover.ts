import type { Bytes } from "../../base/bytes.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { type AllowedOrigins, checkOrigin, parseHttpUrl } from "../../bytes/http/url.ts";
import { OPENING_BYTES, withHead } from "../../bytes/layers/opening-read.ts";
import { checkRelativeName } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import { sniffFormat } from "../../formats/registry.ts";
import type { Member, StatedCrc } from "../../model/format.ts";
import type { Engine } from "../../primitives/engine.ts";
import { collisionError, longNameError, nameError, refusedNameError } from "./errors.ts";

/** A file that belongs to the pulled model. */
export interface PullFile {
  /** Destination, relative to the folder. */
  readonly path: string;
  /** Its address. */
  readonly url: string;
  /** Present if an index states it. */
  readonly byteLength?: number | undefined;
  /** Lower-case hex; present if an index states it. */
  readonly sha256?: string | undefined;
  /** Present if an index states it. */
  readonly crc32?: StatedCrc | undefined;
  /** Throws if a redirect target is not allowed; present if an index gives the full address. */
  readonly onRedirect?: ((url: string) => void) | undefined;
}

/** Everything that has to be fetched for a model. */
export interface PullSet {
  /** Undefined if the format of the content is not known. */
  readonly format: string | undefined;
  readonly files: readonly PullFile[];
  /** The index, which is put in place last and makes the set valid; absent if the first file is the model itself. */
  readonly index?: { readonly path: string; readonly bytes: Bytes } | undefined;
}

interface DiscoverOptions {
  readonly url: string;
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  /** Servers other than the URL's own from which files may be fetched. */
  readonly allowedOrigins: AllowedOrigins;
  readonly signal: AbortSignal;
}

/** The file name that a URL ends with, decoded and checked. */
export function nameOfUrl(url: string): string {
  const { label } = parseHttpUrl(url);
  const { pathname } = new URL(url);
  const segment = pathname.slice(pathname.lastIndexOf("/") + 1);
  let name = segment;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // not UTF-8 after the percent signs: use the name as it is
  }
  if (name === "") throw nameError(label);
  checkWorkName(name, label);
  return name;
}

/** The address of a file next to another one. Keeps the query, which may have signatures and revisions. */
function siblingUrl(url: string, path: string): string {
  const sibling = new URL(url);
  sibling.hash = "";
  const folder = sibling.pathname.slice(0, sibling.pathname.lastIndexOf("/") + 1);
  sibling.pathname = folder + path.split("/").map(encodeURIComponent).join("/");
  return sibling.href;
}

/** Looks at the file that the URL names, and lists the other files that belong to it. Reads no weights. */
export async function discover(source: Source, options: DiscoverOptions): Promise<PullSet> {
  const { url, engine, limits, signal } = options;
  const name = nameOfUrl(url);
  const bytes = await source.read(0, Math.min(OPENING_BYTES, source.byteLength), { signal });
  const format = await sniffFormat({ bytes, byteLength: source.byteLength, name });
  const reader = await format?.read();
  const members = await reader?.members?.(withHead(source, bytes), { name, engine, limits, signal });
  if (members === undefined) return { format: format?.id, files: [{ path: name, url }] };
  const files = members.files.map((member) => placeMember(member, source.label, options));
  checkCollisions(files, source.label);
  const { index } = members;
  if (index !== undefined && files.some(({ path }) => path === name)) {
    throw refusedNameError(name, source.label, "that is the index itself");
  }
  checkSetNames(
    files.map(({ path }) => path).filter((path) => path !== name),
    { label: source.label, format: format?.id ?? "", index: name },
  );
  if (index === undefined) return { format: format?.id, files };
  // A file that the set names by its full address gets a local name, and the local index must state it.
  const isRenamed = members.files.some(({ path }) => isAddress(path));
  const local = isRenamed ? index.renamed?.(files.map(({ path }) => path)) : undefined;
  return { format: format?.id, files, index: { path: name, bytes: local ?? index.bytes } };
}

function placeMember(member: Member, label: string, { url, allowedOrigins }: DiscoverOptions): PullFile {
  const { byteLength, sha256, crc32 } = member;
  const path = isAddress(member.path) ? nameOfUrl(member.path) : member.path;
  checkRelativeName(path, { source: label, path: member.path });
  if (member.url === undefined) return { path, url: siblingUrl(url, path), byteLength, sha256, crc32 };
  const onRedirect = (target: string): void =>
    checkOrigin(target, { label, own: new URL(url).origin, allowed: allowedOrigins });
  onRedirect(member.url);
  return { path, url: member.url, byteLength, sha256, crc32, onRedirect };
}

function isAddress(path: string): boolean {
  return /^https?:\/\//i.test(path);
}

/** A file may be listed twice, but with the same facts, because only one of two claims would be checked. */
function checkCollisions(files: readonly PullFile[], label: string): void {
  const claims = new Map<string, string>();
  for (const { path, url, byteLength, sha256, crc32 } of files) {
    const claim = JSON.stringify([url, byteLength, sha256, crc32?.value]);
    const known = claims.get(path);
    if (known !== undefined && known !== claim) throw collisionError(path, label);
    claims.set(path, claim);
  }
}

/** The origin of a set's names, for errors. */
interface NamedSet {
  readonly label: string;
  /** Id of the set's format. */
  readonly format: string;
  /** Name of the index itself, which is written next to the files. */
  readonly index?: string | undefined;
}

/** The suffix of a file's name while it is fetched; `.tare-part.probe` is the longest. */
const WORK_FILE = /\.tare-[a-z]/i;
/** File systems hold 255 bytes; work files add up to 20 to the name of the file. */
const MAX_SEGMENT_BYTES = 230;
/** For the whole path: systems hold 4096 bytes, and the folder needs its share. */
const MAX_PATH_BYTES = 1024;
/** Some file systems ignore these characters, so that two names become one, and terminals do not show them. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}|\p{Cf}/u;
const WILDCARD = /[<>"|?*]/;
/** Windows' short name of another file: GIT~1 is .git. */
const SHORT_NAME = /^[^./]{1,8}~\d/;

/** The extension of a set's files, by the format of the set. No such set has parts of another kind. */
const PARTS: Readonly<Record<string, string>> = {
  safetensors: "safetensors",
  aeroset: "aero",
  apr: "apr",
  gguf: "gguf",
};
/** PyTorch's shards have an index in the same form as SafeTensors', but with this name. */
const PYTORCH_INDEX = /\.bin\.index\.json$/i;
/** A number may follow if a file was split. */
const CUT = "(\\.?(part|shard)?[-_.]?\\d{1,6})?";
/** Parts that are named by their digest. */
const DIGEST = /^(sha256[-_.])?[0-9a-f]{16,128}$/i;
/**
 * Folders whose files a program uses just because they are there: interpreters, package managers, schedulers, desktops,
 * service managers. No part of a model belongs into one, whatever its name.
 */
const ACTED_ON =
  /^(site-packages|dist-packages|__pycache__|__pypackages__|node_modules|cron\.\w+|(init|rc\d?|profile)\.d|systemd|autostart|launchagents|launchdaemons)$/i;

/** Refuses a name under which a pull cannot work, from any origin. */
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
 * Checks the names that an index gives to files, all of them before the first is fetched. An index comes from a server:
 * it may name parts of a set of its own format, and nothing that a shell, an interpreter or another program would read
 * on its own. This is a list of allowed names, because the files that programs read cannot all be known: Python runs
 * every .pth below site-packages.
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

/** The names of a set's parts; formats without sets allow no name. */
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

/** Compares names like file systems that fold case and Unicode form. A file cannot be a folder as well. */
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

/** Upper case first: file systems that fold treat ß and SS, ſ and s as equal. */
function foldName(name: string): string {
  return name.normalize("NFC").toUpperCase().toLowerCase().normalize("NFC");
}
