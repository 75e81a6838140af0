import { checkLimit, resolveLimits } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { Members, MembersContext } from "../../model/members.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { checkShardNames, parseShardIndex } from "./shard-index.ts";
import { isIndexText } from "./sniff.ts";

/** Bytes that tell an index from a file of tensors: its length comes first. */
const HEAD_BYTES = 64;

/** The shards that an index names; undefined for a file of tensors. */
export async function safetensorsMembers(source: Source, context: MembersContext): Promise<Members | undefined> {
  const { signal } = context;
  if (!isIndexText(await source.read(0, Math.min(HEAD_BYTES, source.byteLength), { signal }))) return undefined;
  const limits = resolveLimits("safetensors", SAFETENSORS_LIMITS, context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.indexBytes, "SafeTensors index bytes", "limit/safetensors.index-bytes", at);
  const bytes = (await source.read(0, source.byteLength, { signal })).slice();
  const index = parseShardIndex(decodeJsonText(bytes, { ...at, what: "SafeTensors index" }), source.label, limits);
  checkShardNames(index, context.name);
  return { files: index.shards.map((path) => ({ path })), index: { bytes } };
}
