import { isPowerOfTwo } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { addedEntry, type Holding, packMetadata } from "../../model/carry.ts";
import type { Metadata, MetadataEntry } from "../../model/metadata.ts";
import { type CarriedTensor, encodeOrigin, type OriginLink } from "../../model/origin.ts";
import { ORIGIN_KEY } from "../../model/origin-key.ts";
import { hasGgufType } from "./encode-values.ts";
import { ALIGNMENT_KEY } from "./layout.ts";
import { GGUF_LIMITS } from "./limits.ts";
import { GGUF_ENCODING } from "./values.ts";

export interface KeptForOthers {
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
  /** Where `tare.origin` goes; at the end where absent. */
  readonly originIndex?: number | undefined;
  /** What llama.cpp wants to read although the model does not say it. */
  readonly added?: readonly MetadataEntry[] | undefined;
}

/** The entries to write: native ones, and `tare.origin` if anything has to be kept in it. */
export function planEntries(metadata: Metadata, kept: KeptForOthers): readonly MetadataEntry[] {
  const { chain, tensors, added = [] } = kept;
  let packed = packMetadata(metadata, holdingOf);
  if (packed.entries === undefined && chain.length === 0 && tensors.length === 0) return [...packed.native, ...added];
  // A foreign value under our key must not stand beside ours.
  if (metadata.get(ORIGIN_KEY) !== undefined) {
    packed = packMetadata(metadata, (entry) => (entry.key === ORIGIN_KEY ? "none" : holdingOf(entry)));
  }
  const own = added.length === 0 ? packed.entries : (packed.entries ?? packed.native.map(({ key }) => [key] as const));
  const listed = own === undefined ? undefined : [...own, ...added.map(({ key }) => addedEntry(key))];
  const text = encodeOrigin({
    chain,
    ...(listed === undefined ? {} : { entries: listed }),
    ...(tensors.length === 0 ? {} : { tensors }),
  });
  const entries = [...packed.native, ...added];
  const index = Math.min(kept.originIndex ?? entries.length, entries.length);
  entries.splice(index, 0, { key: ORIGIN_KEY, value: { type: "string", value: text } });
  return entries;
}

function holdingOf({ key, value }: MetadataEntry): Holding {
  if (!hasGgufType(value) || !isGgufKey(key)) return "none";
  // llama.cpp refuses an empty key: it stays only where a GGUF file already had it.
  if (key === "" && value.encoded?.encoding !== GGUF_ENCODING) return "none";
  // A general.alignment that no reader would accept must not reach the file as such.
  if (key === ALIGNMENT_KEY && alignmentOf(value) === undefined) return "none";
  return "native";
}

function isGgufKey(key: string): boolean {
  return (
    !/\p{Surrogate}/u.test(key) && (key.length * 3 <= MAX_KEY_BYTES || encodeUtf8(key).byteLength <= MAX_KEY_BYTES)
  );
}

const MAX_KEY_BYTES = GGUF_LIMITS.keyBytes.default;

/** The alignment that a value of `general.alignment` sets; undefined where readers would refuse it. */
export function alignmentOf(value: MetadataEntry["value"] | undefined): number | undefined {
  if (value?.type !== "u32") return undefined;
  const alignment = Number(value.value);
  return isPowerOfTwo(alignment) && alignment <= GGUF_LIMITS.alignment.default ? alignment : undefined;
}
