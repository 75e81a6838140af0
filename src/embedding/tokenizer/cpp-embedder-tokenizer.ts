import type { Vocabulary } from "../../model/bert/vocabulary.ts";
import { decodePieces } from "./decode-pieces.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { WordPieces } from "./word-pieces.ts";

const REPLACEMENT = 0xfffd;

/**
 * What the tokenizer of cpp_embedder does, which is not what BERT's does: A–Z become lower case, words end at ASCII
 * whitespace only, punctuation and accents stay, a word that cannot be cut to its end keeps the pieces before its
 * [UNK], no word is too long, and the text ends at a NUL, as C strings do.
 */
export class CppEmbedderTokenizer implements Tokenizer {
  readonly vocabulary: Vocabulary;
  readonly #words: WordPieces;

  constructor(vocabulary: Vocabulary) {
    this.vocabulary = vocabulary;
    this.#words = new WordPieces({
      tokens: vocabulary.tokens,
      special: vocabulary.special,
      failure: "rest of word",
      maxWordLength: Number.POSITIVE_INFINITY,
    });
  }

  encode(text: string, maxTokens: number): Int32Array<ArrayBuffer> {
    const words = this.#words;
    words.start(maxTokens);
    for (let i = 0; i < text.length && !words.isFull; i++) {
      const unit = text.charCodeAt(i);
      if (unit === 0) break;
      if (isSpace(unit)) words.end();
      else if (unit >= 0x41 && unit <= 0x5a) words.push(unit | 0x20);
      else words.push(isLoneSurrogate(text, i) ? REPLACEMENT : unit);
    }
    words.end();
    return words.finish();
  }

  decode(ids: Iterable<number>): string {
    return decodePieces(this.vocabulary, ids);
  }
}

/** std::isspace of the C locale: tab, line feed, vertical tab, form feed, carriage return, space. */
function isSpace(unit: number): boolean {
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
}

/** UTF-8 has no half pairs: encoders write U+FFFD instead. */
function isLoneSurrogate(text: string, i: number): boolean {
  const unit = text.charCodeAt(i);
  if (unit < 0xd800 || unit > 0xdfff) return false;
  const [other, low, high] =
    unit < 0xdc00 ? [text.charCodeAt(i + 1), 0xdc00, 0xdfff] : [text.charCodeAt(i - 1), 0xd800, 0xdbff];
  return !(other >= low && other <= high);
}
