import { type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import type { WhisperHeader } from "./layout.ts";
import type { WhisperExtras } from "./whisper-extras.ts";

/** By `model_type`, as the models are called. */
const MODELS: readonly string[] = [
  "tiny",
  "tiny.en",
  "base",
  "base.en",
  "small",
  "small.en",
  "medium",
  "medium.en",
  "large",
  "large-v1",
  "large-v2",
  "large-v3",
];

/** By `quantization`. */
const METHODS: readonly (readonly [method: string, bits: number])[] = [
  ["f32", 32],
  ["f16", 16],
  ["int8", 8],
  ["int4", 4],
];

export interface WhisperContents {
  readonly extras: WhisperExtras;
  readonly scales: ReadonlyMap<string, number>;
}

/** The header's fields and the blocks behind the weights under the keys that the APR v2 specification has for them. */
export function whisperMetadata(header: WhisperHeader, { extras, scales }: WhisperContents): MetadataEntry[] {
  const entries: MetadataEntry[] = [
    { key: "model_type", value: stringValue("whisper") },
    { key: "name", value: stringValue(`whisper-${MODELS[header.modelType] ?? header.modelType}`) },
    { key: "architecture", value: { type: "map", entries: architectureOf(header) } },
  ];
  const add = (key: string, value: MetadataValue | undefined): void => {
    if (value !== undefined) entries.push({ key, value });
  };
  const [method, bits] = METHODS[header.quantization] ?? [`type ${header.quantization}`, 0];
  if (header.quantization > 0) {
    add("quantization", {
      type: "map",
      entries: [
        { key: "method", value: stringValue(method) },
        { key: "bits_per_weight", value: { type: "u32", value: bits } },
      ],
    });
  }
  // A value of an int8 tensor is the stored integer times the tensor's scale.
  if (scales.size > 0) {
    const steps = [...scales].map(([key, value]): MetadataEntry => ({ key, value: { type: "f32", value } }));
    add("tensor_scales", { type: "map", entries: steps });
  }
  add("vocab", extras.vocab);
  add("merges", extras.merges);
  add("mel_filterbank", extras.filterbank?.values);
  add("mel_filterbank_shape", extras.filterbank?.shape);
  return entries;
}

function architectureOf(header: WhisperHeader): MetadataEntry[] {
  const fields: readonly (readonly [string, number])[] = [
    ["n_vocab", header.nVocab],
    ["n_audio_ctx", header.nAudioCtx],
    ["n_audio_state", header.nAudioState],
    ["n_audio_head", header.nAudioHead],
    ["n_audio_layer", header.nAudioLayer],
    ["n_text_ctx", header.nTextCtx],
    ["n_text_state", header.nTextState],
    ["n_text_head", header.nTextHead],
    ["n_text_layer", header.nTextLayer],
    ["n_mels", header.nMels],
  ];
  return fields.map(([key, value]) => ({ key, value: { type: "u32", value } }));
}
