import { checkLimit } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { Members, MembersContext } from "../../model/format.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { aprLimits } from "./limits.ts";
import { aprKind } from "./sniff.ts";
import { parseManifest } from "./spec/manifest.ts";

/** What `aprKind` looks at in JSON. */
const HEAD_BYTES = 64 << 10;

/** The shards that a manifest names; undefined for a file of tensors. */
export async function aprMembers(source: Source, context: MembersContext): Promise<Members | undefined> {
  const { signal } = context;
  const head = await source.read(0, Math.min(HEAD_BYTES, source.byteLength), { signal });
  if (aprKind(head) !== "manifest") return undefined;
  const limits = aprLimits(context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.manifestBytes, "APR manifest bytes", "limit/apr.manifest-bytes", at);
  const bytes = (await source.read(0, source.byteLength, { signal })).slice();
  const { shards } = parseManifest(decodeJsonText(bytes, { ...at, what: "APR manifest" }), source.label, limits);
  return { files: shards.map(({ file, size }) => ({ path: file, byteLength: size })), index: { bytes } };
}
