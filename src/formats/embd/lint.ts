import { encodeHex } from "../../base/hex.ts";
import { printable } from "../../base/text.ts";
import type { Finding } from "../../model/finding.ts";
import type { EmbdModel } from "./embd-model.ts";
import type { SpecDetails } from "./open-spec.ts";
import { OPTIONAL_KEYS, REQUIRED_KEYS, WORD_EMBEDDINGS } from "./required-metadata.ts";
import type { TokenList } from "./token-list.ts";

/** What the vocabulary says of itself and of the table of word vectors. */
export function* lintVocabulary(model: EmbdModel, tokens: TokenList): Generator<Finding> {
  yield* lintTokens(model, tokens);
  const words = model.tensors.find(({ name }) => name === WORD_EMBEDDINGS);
  const rows = words?.shape[0];
  const said = model.metadata.text("vocab_size");
  if (rows !== undefined && rows !== tokens.length) {
    // An id without a row cannot be embedded; a row without a token is merely never used.
    const severity = tokens.length > rows ? "error" : "warning";
    const message = `The vocabulary must have as many tokens as "${WORD_EMBEDDINGS}" has rows, ${rows}: found ${tokens.length}`;
    yield { severity, code: "format/embd.vocabulary-size", message, at: vocabularyAt(model), name: WORD_EMBEDDINGS };
  }
  if (said !== undefined && said !== String(tokens.length)) {
    const message = `vocab_size must be the number of tokens, ${tokens.length}: found "${printable(said)}"`;
    yield { severity: "warning", code: "format/embd.vocabulary-size", message, at: vocabularyAt(model) };
  }
}

function* lintTokens(model: EmbdModel, tokens: TokenList): Generator<Finding> {
  const at = vocabularyAt(model);
  const ids = new Map<string, number>();
  let invalid: number | undefined;
  let repeated: readonly [number, number] | undefined;
  for (let id = 0; id < tokens.length; id++) {
    const text = tokens.text(id);
    if (text === undefined) {
      invalid ??= id;
      continue;
    }
    if (text === "") continue; // a hole in the ids, of which there may be many
    const before = ids.get(text);
    if (before !== undefined) repeated ??= [before, id];
    ids.set(text, id);
  }
  if (invalid !== undefined) {
    const message = `Token ${invalid} must be UTF-8, found the bytes ${encodeHex(tokens.bytes(invalid).slice(0, 16))}`;
    yield { severity: "error", code: "format/embd.utf8", message, at };
  }
  if (repeated === undefined) return;
  const [first, second] = repeated;
  const message = `Tokens ${first} and ${second} are both "${printable(tokens.text(first) ?? "")}": texts get the later id`;
  yield { severity: "warning", code: "format/embd.duplicate-token", message, at };
}

/** Keys that the specification requires; a reader can do without them, so this is a warning, or a note for the date. */
export function* lintMetadata({ metadata }: EmbdModel, { source, header }: SpecDetails): Generator<Finding> {
  const at = { source: source.label, offset: header.metadataOffset, path: "metadata" };
  const missing = REQUIRED_KEYS.filter((key) => metadata.get(key) === undefined);
  const wanted = missing.filter((key) => !OPTIONAL_KEYS.has(key));
  if (wanted.length > 0) {
    const message = `The metadata must have the keys that the specification requires: found no ${wanted.join(", ")}`;
    yield { severity: "warning", code: "format/embd.required-key", message, at };
  } else if (missing.length > 0) {
    const message = `The metadata has no ${missing.join(", ")}, which the specification lists and the original schema leaves out`;
    yield { severity: "note", code: "format/embd.required-key", message, at };
  }
}

function vocabularyAt({ details, parts }: EmbdModel): Finding["at"] {
  const source = parts[0]?.label ?? "embd";
  if (details.layout === "spec") return { source, offset: details.header.vocabOffset, path: "vocabulary" };
  return { source, offset: details.layout === "stream" ? details.vocabulary.offset : 0, path: "vocab" };
}
