import type { Bytes } from "../../base/bytes.ts";
import { arrayValue, Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { decodeMetadataJson, type MetadataJson } from "../../model/metadata-json.ts";

/** Where the JSON stands and how much of it may be built. */
interface MetadataPlace {
  readonly source: string;
  readonly offset: number;
  /** JSON values in all. */
  readonly maxValues: number;
}

/** The metadata of any APR layout; what pads it to metadata_size is told. */
export function decodeMetadata(bytes: Bytes, place: MetadataPlace): MetadataJson {
  const noObject = { code: "format/apr.metadata", path: "metadata" } as const;
  return decodeMetadataJson(bytes, { ...place, what: "APR metadata", noObject });
}

/** What `apr_version` says in the files that upgrading writes. */
const APR_VERSION = "2.0.0";
/** Where values stay that upgrading had to replace. */
const SOURCE_KEY = "source_metadata";

/** Hyper-parameters of whisper models, which the specification has in `architecture` and old files at the top. */
const ARCHITECTURE_KEYS: readonly string[] = [
  "n_vocab",
  "n_audio_ctx",
  "n_audio_state",
  "n_audio_head",
  "n_audio_layer",
  "n_text_ctx",
  "n_text_state",
  "n_text_head",
  "n_text_layer",
  "n_mels",
];

/**
 * The keys that the APR v2 specification requires, from what an older file says; every other key stays as it is. Values
 * under `replaced` no longer hold once the tensors are upgraded: they move to `source_metadata`.
 */
export function upgradeMetadata(metadata: Metadata, replaced: readonly string[] = []): Metadata {
  const moved: MetadataEntry[] = [];
  let upgraded = new Metadata(metadata.entries.map(({ key, value }) => ({ key, value: jsonValue(value) })));
  for (const key of replaced) {
    const value = upgraded.get(key);
    if (value !== undefined) moved.push({ key, value });
    upgraded = upgraded.without(key);
  }
  const type = upgraded.get("model_type");
  if (type?.type !== "string") {
    if (type !== undefined && type.type !== "null") moved.push({ key: "model_type", value: type });
    upgraded = upgraded.with("model_type", stringValue("unknown"));
  }
  const architecture = upgraded.get("architecture");
  if (architecture?.type !== "map") {
    if (architecture !== undefined && architecture.type !== "null") {
      moved.push({ key: "architecture", value: architecture });
    }
    upgraded = upgraded.with("architecture", architectureOf(upgraded, architecture));
  }
  return withMoved(upgraded.with("apr_version", stringValue(APR_VERSION)), moved);
}

function architectureOf(metadata: Metadata, old: MetadataValue | undefined): MetadataValue {
  if (old?.type === "string") return { type: "map", entries: [{ key: "name", value: old }] };
  const entries = metadata.entries.filter(({ key }) => ARCHITECTURE_KEYS.includes(key));
  return { type: "map", entries };
}

/** Beside what the file keeps there already; where that is no object, under a key of its own. */
function withMoved(metadata: Metadata, moved: readonly MetadataEntry[]): Metadata {
  if (moved.length === 0) return metadata;
  const held = metadata.get(SOURCE_KEY);
  if (held !== undefined && held.type !== "map") {
    return metadata.with(`${SOURCE_KEY}.upgrade`, { type: "map", entries: moved });
  }
  const kept = (held?.entries ?? []).filter(({ key }) => !moved.some((entry) => entry.key === key));
  return metadata.with(SOURCE_KEY, { type: "map", entries: [...kept, ...moved] });
}

/** As JSON will give it back: it knows one kind of integer and one of float. */
function jsonValue(value: MetadataValue): MetadataValue {
  switch (value.type) {
    case "map":
      return {
        type: "map",
        entries: value.entries.map((entry) => ({ key: entry.key, value: jsonValue(entry.value) })),
      };
    case "array": {
      const items = value.slice().map(jsonValue);
      const [first] = items;
      return arrayValue(items, items.every((item) => item.type === first?.type) ? first?.type : undefined);
    }
    case "f32":
      return { type: "f64", value: value.value };
    case "u8":
    case "i8":
    case "u16":
    case "i16":
    case "u32":
    case "i32":
    case "u64":
      return value.value < 2n ** 63n ? { type: "i64", value: value.value } : value;
    default:
      return value;
  }
}
