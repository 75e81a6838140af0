import type { Bytes } from "../../base/bytes.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { type AllowedOrigins, checkOrigin, parseHttpUrl } from "../../bytes/http/url.ts";
import { withHead } from "../../bytes/layers/prefix.ts";
import { checkRelativeName } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import { OPENING_BYTES } from "../../bytes/transfer.ts";
import { sniffFormat } from "../../formats/registry.ts";
import type { Member } from "../../model/format.ts";
import type { Engine } from "../../primitives/engine.ts";
import { collisionError, nameError, refusedNameError } from "./errors.ts";
import { checkSetNames, checkWorkName } from "./names.ts";

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
  /** Judges, by throwing, where redirects lead: present where an index gives the address in full. */
  readonly onRedirect?: ((url: string) => void) | undefined;
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
  checkWorkName(name, label);
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
    { label: source.label, index: name },
  );
  if (index === undefined) return { format: format?.id, files };
  // A file that the set names by its full address gets a local name, and the local set must say so.
  const isRenamed = members.files.some(({ path }) => isAddress(path));
  const local = isRenamed ? index.renamed?.(files.map(({ path }) => path)) : undefined;
  return { format: format?.id, files, index: { path: name, bytes: local ?? index.bytes } };
}

function placeMember(member: Member, label: string, { url, allowedOrigins }: DiscoverOptions): PullFile {
  const { byteLength, sha256 } = member;
  const path = isAddress(member.path) ? nameOfUrl(member.path) : member.path;
  checkRelativeName(path, { source: label, path: member.path });
  if (member.url === undefined) return { path, url: siblingUrl(url, path), byteLength, sha256 };
  const onRedirect = (target: string): void =>
    checkOrigin(target, { label, own: new URL(url).origin, allowed: allowedOrigins });
  onRedirect(member.url);
  return { path, url: member.url, byteLength, sha256, onRedirect };
}

function isAddress(path: string): boolean {
  return /^https?:\/\//i.test(path);
}

function checkCollisions(files: readonly PullFile[], label: string): void {
  const urls = new Map<string, string>();
  for (const { path, url } of files) {
    const known = urls.get(path);
    if (known !== undefined && known !== url) throw collisionError(path, label);
    urls.set(path, url);
  }
}
