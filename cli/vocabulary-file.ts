import { UsageError } from "../src/base/errors.ts";
import { parseVocabularyFile } from "../src/model/bert/sidecars.ts";
import type { Vocabulary } from "../src/model/bert/vocabulary.ts";
import { decodeJsonText } from "../src/struct/strict-json.ts";
import { readFlagFile } from "./flag-file.ts";

/** The tokens in the file that `--vocab` names: a vocab.txt, or a tokenizer.json. */
export async function readVocabulary(path: string): Promise<Vocabulary> {
  const at = { source: path };
  const bytes = await readFlagFile(path, "data", "Cannot read --vocab");
  const text = decodeJsonText(bytes, { source: path, offset: 0, what: "--vocab" });
  const vocabulary = parseVocabularyFile(text, at);
  if (vocabulary !== undefined) return vocabulary;
  throw new UsageError("usage/vocabulary", "Cannot use --vocab: the tokenizer is no WordPiece tokenizer of BERT", at);
}
