import type { Bytes } from "../../base/bytes.ts";
import { checkLimit, type LimitOverrides, resolveLimits } from "../../base/limits.ts";
import { type AllowedOrigins, checkOrigin } from "../../bytes/http-origin.ts";
import { parseHttpUrl } from "../../bytes/http-url.ts";
import { checkRelativeName } from "../../bytes/relative-name.ts";
import type { Source } from "../../bytes/source.ts";
import { encodeSetFile, parseSetFile, type SetEntry, type SetFile } from "../../formats/aeroset/index-file.ts";
import { AEROSET_LIMITS } from "../../formats/aeroset/limits.ts";
import { locateFile } from "../../formats/aeroset/locate.ts";
import { siblingNames, splitFacts } from "../../formats/gguf/split.ts";
import { FORMATS } from "../../formats/registry.ts";
import { SAFETENSORS_LIMITS } from "../../formats/safetensors/limits.ts";
import { parseShardIndex } from "../../formats/safetensors/shard-index.ts";
import { isIndexText } from "../../formats/safetensors/sniff.ts";
import type { Engine } from "../../primitives/engine.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { collisionError, nameError } from "./errors.ts";

/** A file that belongs to what is pulled. */
export interface PullFile {
  /** Where it goes, relative to the folder. */
  readonly path: string;
  /** Where it comes from. */
  readonly url: string;
  /** Where an index states it. */
  readonly byteLength?: number | undefined;
  /** Lower-case hex, where an index states it. */
  readonly sha256?: string | undefined;
}

/** Everything that has to be fetched for a model. */
export interface PullSet {
  /** Undefined where the content is of no format that is known. */
  readonly format: string | undefined;
  readonly files: readonly PullFile[];
  /** The index, which is put in place last and makes the set valid; absent where the first file is the model itself. */
  readonly index?: { readonly path: string; readonly bytes: Bytes } | undefined;
}

export interface DiscoverOptions {
  readonly url: string;
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  /** Servers beside the URL's own from which files may be fetched. */
  readonly allowedOrigins: AllowedOrigins;
  readonly signal: AbortSignal;
}

/** The opening read: enough to recognise every format. */
const HEAD_BYTES = 256 << 10;

/** The file name that a URL ends with, decoded and checked. */
export function nameOfUrl(url: string): string {
  const { label } = parseHttpUrl(url);
  const { pathname } = new URL(url);
  const segment = pathname.slice(pathname.lastIndexOf("/") + 1);
  let name = segment;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // not UTF-8 behind the percent signs: the name as it stands will do
  }
  if (name === "") throw nameError(label);
  checkRelativeName(name, { source: label });
  return name;
}

/** The address of a file beside another one; the query, where signatures and revisions stand, is kept. */
export function siblingUrl(url: string, path: string): string {
  const sibling = new URL(url);
  sibling.hash = "";
  const folder = sibling.pathname.slice(0, sibling.pathname.lastIndexOf("/") + 1);
  sibling.pathname = folder + path.split("/").map(encodeURIComponent).join("/");
  return sibling.href;
}

/** Looks at the file behind the URL, and lists what else belongs to it. Weights are not touched. */
export async function discover(source: Source, options: DiscoverOptions): Promise<PullSet> {
  const { url, signal } = options;
  const name = nameOfUrl(url);
  const bytes = await source.read(0, Math.min(HEAD_BYTES, source.byteLength), { signal });
  const format = FORMATS.find((one) => one.sniff({ bytes, byteLength: source.byteLength, name }) === "yes");
  const single: PullSet = { format: format?.id, files: [{ path: name, url }] };
  if (format?.id === "aeroset") return discoverAeroset(source, name, options);
  if (format?.id === "safetensors" && isIndexText(bytes)) return discoverSafetensors(source, name, options);
  if (format?.id !== "gguf") return single;
  // Without a resolver only this one file is opened, and its metadata keeps the keys of the split.
  const { engine, limits } = options;
  const container = await (await format.load()).open(source, { engine, limits, signal });
  const split = container.kind === "model" ? splitFacts(container.metadata) : undefined;
  const names = split?.no === 0 ? siblingNames(name, split.count) : undefined;
  return names === undefined ? single : { ...single, files: names.map((path) => sibling(url, path)) };
}

function sibling(url: string, path: string): PullFile {
  checkRelativeName(path, { source: parseHttpUrl(url).label });
  return { path, url: siblingUrl(url, path) };
}

async function discoverSafetensors(source: Source, name: string, options: DiscoverOptions): Promise<PullSet> {
  const limits = resolveLimits("safetensors", SAFETENSORS_LIMITS, options.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.indexBytes, "SafeTensors index bytes", "limit/safetensors.index-bytes", at);
  const bytes = await readWhole(source, options.signal);
  const text = decodeJsonText(bytes, { source: source.label, offset: 0, what: "SafeTensors index" });
  const { shards } = parseShardIndex(text, source.label, limits);
  const files = shards.map((path) => sibling(options.url, path));
  return { format: "safetensors", files, index: { path: name, bytes } };
}

async function discoverAeroset(source: Source, name: string, options: DiscoverOptions): Promise<PullSet> {
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, options.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.jsonBytes, "AEROSET JSON bytes", "limit/aeroset.json-bytes", at);
  const bytes = await readWhole(source, options.signal);
  const text = decodeJsonText(bytes, { source: source.label, offset: 0, what: "AEROSET JSON" });
  const set = parseSetFile(text, source.label, limits);
  const entries = [...set.parts, set.globalIndex];
  const files = entries.map((entry) => placeEntry(entry, set.baseUrl, source.label, options));
  checkCollisions(files, source.label);
  // A part that the set names by its full address gets a local name, and the local set must say so.
  const isRenamed = entries.some((entry, i) => isAddress(entry.path) && files[i] !== undefined);
  return { format: "aeroset", files, index: { path: name, bytes: isRenamed ? renamed(set, files) : bytes } };
}

function placeEntry(
  entry: SetEntry,
  baseUrl: string | undefined,
  label: string,
  { url, allowedOrigins }: DiscoverOptions,
): PullFile {
  const at = { source: label, path: entry.path };
  const place = locateFile(entry.path, { from: "address", baseUrl }, at);
  if (place.kind === "url") checkOrigin(place.url, { label, own: new URL(url).origin, allowed: allowedOrigins });
  const from = place.kind === "url" ? place.url : siblingUrl(url, place.name);
  const path = isAddress(entry.path) ? nameOfUrl(entry.path) : entry.path.replace(/^(\.\/)+/, "");
  checkRelativeName(path, at);
  return { path, url: from, byteLength: entry.sizeBytes, sha256: entry.sha256?.toLowerCase() };
}

function isAddress(path: string): boolean {
  return /^https?:\/\//i.test(path);
}

function renamed(set: SetFile, files: readonly PullFile[]): Bytes {
  const parts = set.parts.map((part, i) => ({ ...part, path: files[i]?.path ?? part.path }));
  const { baseUrl: _, ...local } = set;
  return encodeSetFile({ ...local, parts, globalIndex: { ...set.globalIndex, path: files.at(-1)?.path ?? "" } });
}

function checkCollisions(files: readonly PullFile[], label: string): void {
  const urls = new Map<string, string>();
  for (const { path, url } of files) {
    const known = urls.get(path);
    if (known !== undefined && known !== url) throw collisionError(path, label);
    urls.set(path, url);
  }
}

async function readWhole(source: Source, signal: AbortSignal): Promise<Bytes> {
  return (await source.read(0, source.byteLength, { signal })).slice();
}
