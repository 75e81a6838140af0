import { checkLimit, resolveLimits } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { Member, Members, MembersContext } from "../../model/members.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { encodeSetFile, parseSetFile, type SetEntry, type SetFile } from "./index-file.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { locateFile } from "./locate.ts";

/** The parts and the global index of a set whose JSON came from a server. */
export async function aerosetMembers(source: Source, context: MembersContext): Promise<Members> {
  const limits = resolveLimits("aeroset", AEROSET_LIMITS, context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.jsonBytes, "AEROSET JSON bytes", "limit/aeroset.json-bytes", at);
  const bytes = (await source.read(0, source.byteLength, { signal: context.signal })).slice();
  const set = parseSetFile(decodeJsonText(bytes, { ...at, what: "AEROSET JSON" }), source.label, limits);
  const files = [...set.parts, set.globalIndex].map((entry) => memberOf(entry, set.baseUrl, source.label));
  return { files, index: { bytes, renamed: (paths) => renamed(set, paths) } };
}

function memberOf(entry: SetEntry, baseUrl: string | undefined, label: string): Member {
  const place = locateFile(entry.path, { from: "address", baseUrl }, { source: label, path: entry.path });
  const path = place.kind === "sibling" ? place.name : entry.path.replace(/^(\.\/)+/, "");
  const url = place.kind === "url" ? place.url : undefined;
  return { path, url, byteLength: entry.sizeBytes, sha256: entry.sha256?.toLowerCase() };
}

/** The set with its files beside it, whatever addresses it had. */
function renamed(set: SetFile, paths: readonly string[]): ReturnType<typeof encodeSetFile> {
  const parts = set.parts.map((part, i) => ({ ...part, path: paths[i] ?? part.path }));
  const { baseUrl: _, ...local } = set;
  return encodeSetFile({ ...local, parts, globalIndex: { ...set.globalIndex, path: paths.at(-1) ?? "" } });
}
