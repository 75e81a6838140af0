import { readFile } from "node:fs/promises";
import { UsageError } from "../src/base/errors.ts";
import { parseVocabularyFile } from "../src/model/bert/sidecars.ts";
import type { Vocabulary } from "../src/model/bert/vocabulary.ts";
import { fileError } from "../src/platform/node/errors.ts";
import { decodeJsonText } from "../src/struct/strict-json.ts";

/** The tokens in the file that `--vocab` names: a vocab.txt, or a tokenizer.json. */
export async function readVocabulary(path: string): Promise<Vocabulary> {
  const at = { source: path };
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = new Uint8Array(await readFile(path));
  } catch (error) {
    throw fileError(error, "Cannot read --vocab", at);
  }
  const text = decodeJsonText(bytes, { source: path, offset: 0, what: "--vocab" });
  const vocabulary = parseVocabularyFile(text, at);
  if (vocabulary !== undefined) return vocabulary;
  throw new UsageError("usage/vocabulary", "Cannot use --vocab: the tokenizer is no WordPiece tokenizer of BERT", at);
}
