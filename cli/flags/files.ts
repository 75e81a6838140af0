import { parseDigestList } from "../../src/api/trust/digest-list.ts";
import type { Bytes } from "../../src/base/bytes.ts";
import { UsageError } from "../../src/base/errors.ts";
import type { LimitOverrides } from "../../src/base/limits.ts";
import { findLimitsFault } from "../../src/formats/explain.ts";
import { FORMATS } from "../../src/formats/registry.ts";
import { parseVocabularyFile } from "../../src/model/bert/sidecars.ts";
import type { Vocabulary } from "../../src/model/bert/vocabulary.ts";
import { decodeOverlay, type MetadataOverlay } from "../../src/operations/convert/given-metadata.ts";
import type { TensorDigest } from "../../src/operations/verify.ts";
import { readKeyText, readWhole } from "../../src/platform/node/files/reads.ts";
import { parsePrivateKey } from "../../src/primitives/crypto/ed25519.ts";
import { decodeJsonText } from "../../src/struct/strict-json.ts";

/** Limits for files that flags name. No file that people write comes near them, and a device never ends. */
export const FLAG_FILE_BYTES = {
  /** A few lines: limits, headers. */
  settings: 1 << 20,
  /** Metadata, vocabularies, digests of every tensor. */
  data: 64 << 20,
} as const;

/** Reads a whole file that a flag names, also a pipe; `action` begins the error: "Cannot read --metadata". */
export function readFlagFile(path: string, kind: keyof typeof FLAG_FILE_BYTES, action: string): Promise<Bytes> {
  return readWhole(path, action, FLAG_FILE_BYTES[kind]);
}

/** Like `readFlagFile`, for text. */
export async function readFlagText(path: string, kind: keyof typeof FLAG_FILE_BYTES, action: string): Promise<string> {
  // A byte order mark stays, like everything else: the parser of the text decides what it allows.
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await readFlagFile(path, kind, action));
}

/** `{ "gguf": { "headerBytes": 1e9 } }`: only existing limits, only integers. */
export async function readLimits(path: string | undefined): Promise<LimitOverrides> {
  if (path === undefined) return {};
  const text = await readFlagText(path, "settings", `Cannot read --limits "${path}"`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw limitsError(path, "it must be JSON", { cause });
  }
  await checkLimits(parsed, path);
  return parsed as LimitOverrides;
}

async function checkLimits(value: unknown, path: string): Promise<void> {
  if (!isRecord(value)) throw limitsError(path, "it must be an object of formats");
  for (const [id, own] of Object.entries(value)) {
    if (!isRecord(own)) throw limitsError(path, `"${id}" must have an object of limits`);
    const wrong = Object.keys(own).find((name) => !Number.isSafeInteger(own[name]) || (own[name] as number) < 0);
    const fault = await findLimitsFault({ [id]: own as LimitOverrides[string] }, FORMATS);
    if (fault !== undefined) throw limitsError(path, fault.reason, { hint: fault.hint });
    if (wrong !== undefined) throw limitsError(path, `"${wrong}" must be a whole number`);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function limitsError(
  path: string,
  reason: string,
  more: { cause?: unknown; hint?: string | undefined } = {},
): UsageError {
  return new UsageError("usage/limits-file", `Cannot use --limits "${path}": ${reason}`, { source: path }, more);
}

/** Reads what `verify --digest … --json` wrote, or its bare `digests` array. */
export async function readDigestList(path: string): Promise<readonly TensorDigest[]> {
  return parseDigestList(await readFlagText(path, "data", `Cannot read "${path}" for --digests`), path);
}

/** The seed in a PKCS#8 PEM file. */
export async function readPrivateKey(path: string): Promise<Bytes> {
  return parsePrivateKey(await readKeyText(path), path);
}

/** The JSON object that `--metadata` names. */
export async function readOverlay(path: string): Promise<MetadataOverlay> {
  return decodeOverlay(await readFlagFile(path, "data", "Cannot read --metadata"), path);
}

/** The tokens in the file that `--vocab` names: a vocab.txt, or a tokenizer.json. */
export async function readVocabulary(path: string): Promise<Vocabulary> {
  const at = { source: path };
  const bytes = await readFlagFile(path, "data", "Cannot read --vocab");
  const text = decodeJsonText(bytes, { source: path, offset: 0, what: "--vocab" });
  const vocabulary = parseVocabularyFile(text, at);
  if (vocabulary !== undefined) return vocabulary;
  throw new UsageError("usage/vocabulary", "Cannot use --vocab: the tokenizer is no WordPiece tokenizer of BERT", at);
}
