import { FormatError } from "../../base/errors.ts";
import type { SpecialTokens, Vocabulary } from "../../model/bert/vocabulary.ts";
import { BertTokenizer } from "./bert-tokenizer.ts";
import { decodePieces, WordPieces } from "./word-pieces.ts";

/** Text to the ids that a BERT encoder takes, and back. */
export interface Tokenizer {
  readonly vocabulary: Vocabulary;
  /**
   * The ids of a text between [CLS] and [SEP], at most `maxTokens` of them: what is too long loses its end, never the
   * [SEP]. Below 2 the answer is still [CLS] [SEP]. Never padded. Any string has ids: half a surrogate pair is ignored.
   */
  encode(text: string, maxTokens: number): Int32Array<ArrayBuffer>;
  /** A text for ids, near the one they come from: words joined by spaces, without [CLS], [SEP] and [PAD]. */
  decode(ids: Iterable<number>): string;
}

export interface TokenizerOptions {
  /** "bert" is the pipeline that the models were trained with; "cpp_embedder" what that library really does. */
  readonly mode?: "bert" | "cpp_embedder" | undefined;
  /** Uncased models (the usual ones) have "lower". "cpp_embedder" always lowers A–Z. */
  readonly lowerCase?: "lower" | "keep" | undefined;
  /** As the case where absent: uncased models know no accents. */
  readonly accents?: "strip" | "keep" | undefined;
  /** "joined" where ideographs are letters like others; each is a word of its own where absent. */
  readonly ideographs?: "apart" | "joined" | undefined;
  /** Longer words are [UNK]; 100 where absent, as in BERT's tokenizer.json. */
  readonly maxWordLength?: number | undefined;
}

/** Throws `format/tokenizer.special` where the ids of [CLS], [SEP] or [UNK] are none of the vocabulary's. */
export function createTokenizer(vocabulary: Vocabulary, options: TokenizerOptions = {}): Tokenizer {
  checkSpecial(vocabulary);
  if (options.mode === "cpp_embedder") return new CppEmbedderTokenizer(vocabulary);
  const { lowerCase = "lower", maxWordLength = 100, ideographs = "apart" } = options;
  const accents = options.accents ?? (lowerCase === "lower" ? "strip" : "keep");
  return new BertTokenizer(vocabulary, { lowerCase, accents, ideographs, maxWordLength });
}

function checkSpecial({ tokens, special }: Vocabulary): void {
  for (const name of ["cls", "sep", "unk"] as const satisfies readonly (keyof SpecialTokens)[]) {
    const id = special[name];
    if (Number.isInteger(id) && id >= 0 && id < tokens.length) continue;
    throw new FormatError(
      "format/tokenizer.special",
      `Cannot use the vocabulary: the id of [${name.toUpperCase()}] must be < ${tokens.length}, found ${id}`,
      { source: "vocabulary", path: `special_tokens.${name}` },
    );
  }
}

const REPLACEMENT = 0xfffd;

/**
 * What the tokenizer of cpp_embedder does, which is not what BERT's does: A–Z become lower case, words end at ASCII
 * whitespace only, punctuation and accents stay, a word that cannot be cut to its end keeps the pieces before its
 * [UNK], no word is too long, and the text ends at a NUL, as C strings do.
 */
class CppEmbedderTokenizer implements Tokenizer {
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
