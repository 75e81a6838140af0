import type { Bytes } from "../../base/bytes.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Member, Members, MembersContext } from "../../model/members.ts";
import { decodeJsonText, type JsonNode, parseStrictJson } from "../../struct/strict-json.ts";
import { encodeSetFile, type ParsedSetFile, parseSetFile, type SetEntry } from "./index-file.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { locateFile } from "./locate.ts";

/** The parts and the global index of a set whose JSON came from a server. */
export async function aerosetMembers(source: Source, context: MembersContext): Promise<Members> {
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.jsonBytes, "AEROSET JSON bytes", "limit/aeroset.json-bytes", at);
  const bytes = (await source.read(0, source.byteLength, { signal: context.signal })).slice();
  const text = decodeJsonText(bytes, { ...at, what: "AEROSET JSON" });
  const set = parseSetFile(text, source.label, limits);
  const files = [...set.parts, set.globalIndex].map((entry) => memberOf(entry, set.baseUrl, source.label));
  return { files, index: { bytes, renamed: (paths) => renamed(set, text, paths) } };
}

function memberOf(entry: SetEntry, baseUrl: string | undefined, label: string): Member {
  const place = locateFile(entry.path, { from: "address", baseUrl }, { source: label, path: entry.path });
  const path = place.kind === "sibling" ? place.name : entry.path.replace(/^(\.\/)+/, "");
  const url = place.kind === "url" ? place.url : undefined;
  return { path, url, byteLength: entry.sizeBytes, sha256: entry.sha256?.toLowerCase() };
}

/** The set with its files beside it, whatever addresses it had. */
function renamed(set: ParsedSetFile, text: string, paths: readonly string[]): Bytes {
  if (set.further.length > 0) return renamedText(text, paths);
  const parts = set.parts.map((part, i) => ({ ...part, path: paths[i] ?? part.path }));
  const { baseUrl: _, ...local } = set;
  return encodeSetFile({ ...local, parts, globalIndex: { ...set.globalIndex, path: paths.at(-1) ?? "" } });
}

/** Other texts where the paths stand, every other character as it was: keys that nobody here knows are not lost. */
function renamedText(text: string, paths: readonly string[]): Bytes {
  const root = parseStrictJson(text, { source: "AEROSET JSON", offset: 0, what: "AEROSET JSON" });
  const member = (node: JsonNode | undefined, key: string): JsonNode | undefined =>
    node?.type === "object" ? node.entries.find(([name]) => name === key)?.[1] : undefined;
  const list = member(root, "parts");
  const files = [...(list?.type === "array" ? list.items : []), member(root, "global_tidx")];
  const edits = files.map((file, i) => ({ node: member(file, "path"), value: paths[i] ?? "" }));
  // Readers take an empty base_url for none.
  const all = [...edits, { node: member(root, "base_url"), value: "" }];
  let edited = text;
  for (const { node, value } of all.sort((a, b) => (b.node?.start ?? 0) - (a.node?.start ?? 0))) {
    if (node !== undefined) edited = edited.slice(0, node.start) + JSON.stringify(value) + edited.slice(node.end);
  }
  return encodeUtf8(edited);
}
