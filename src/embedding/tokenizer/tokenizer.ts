import { FormatError } from "../../base/errors.ts";
import type { SpecialTokens, Vocabulary } from "../../model/bert/vocabulary.ts";
import { CHARACTER, type CharacterOptions, Characters } from "./characters.ts";
import { decodePieces, WordPieces } from "./word-pieces.ts";

/** Text to the ids that a BERT encoder takes, and back. */
export interface Tokenizer {
  readonly vocabulary: Vocabulary;
  /**
   * The ids of a text between [CLS] and [SEP], at most `maxTokens` of them. A longer text loses its end, never the
   * [SEP]. Below 2 the answer is still [CLS] [SEP]. Never padded. Any string has ids: half a surrogate pair is ignored.
   */
  encode(text: string, maxTokens: number): Int32Array<ArrayBuffer>;
  /** A text for ids, close to the original: words joined by spaces, without [CLS], [SEP] and [PAD]. */
  decode(ids: Iterable<number>): string;
}

export interface TokenizerOptions {
  /** "bert" is the pipeline that the models were trained with; "cpp_embedder" is what that library does. */
  readonly mode?: "bert" | "cpp_embedder" | undefined;
  /** Uncased models (the usual ones) have "lower". "cpp_embedder" always lowers A–Z. */
  readonly lowerCase?: "lower" | "keep" | undefined;
  /** By default follows the case: uncased models have no accents. */
  readonly accents?: "strip" | "keep" | undefined;
  /** "joined" if ideographs are letters like others. By default each is a separate word. */
  readonly ideographs?: "apart" | "joined" | undefined;
  /** Longer words are [UNK]; 100 if absent, as in BERT's tokenizer.json. */
  readonly maxWordLength?: number | undefined;
}

/** Throws `format/tokenizer.special` if the vocabulary has no token for the id of [CLS], [SEP] or [UNK]. */
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

interface BertTokenizerOptions extends CharacterOptions {
  readonly maxWordLength: number;
}

/** The table entry of an ASCII character that continues a word is its lower case. Others have one of these. */
const SPACE = 0x80;
const PUNCTUATION = 0x100;
const DROPPED = 0x180;
/** A special token may begin with this character. The rest of the entry applies if none does. */
const SPECIAL = 0x400;

/**
 * BERT's tokenizer as in the `tokenizers` crate: special tokens in the text, BertNormalizer, BertPreTokenizer and
 * WordPiece in one pass over the string, without intermediate strings.
 */
class BertTokenizer implements Tokenizer {
  readonly vocabulary: Vocabulary;
  readonly #characters: Characters;
  readonly #special: SpecialMatcher;
  readonly #words: WordPieces;
  readonly #ascii = new Uint16Array(128);
  /** The ids of words that are one ASCII character. */
  readonly #asciiIds: Int32Array;
  /** Combining characters do not move before this unit of the word. */
  #barrier = 0;

  constructor(vocabulary: Vocabulary, options: BertTokenizerOptions) {
    const { tokens, special } = vocabulary;
    const { maxWordLength } = options;
    this.vocabulary = vocabulary;
    this.#characters = new Characters(options);
    this.#special = new SpecialMatcher(vocabulary);
    this.#words = new WordPieces({ tokens, special, failure: "whole word", maxWordLength });
    for (let point = 0; point < 128; point++) this.#ascii[point] = this.#asciiEntry(point);
    this.#asciiIds = Int32Array.from(this.#ascii, (_entry, point) => this.#words.idOf(point));
  }

  encode(text: string, maxTokens: number): Int32Array<ArrayBuffer> {
    this.#words.start(maxTokens);
    this.#barrier = 0;
    this.#scan(text);
    return this.#words.finish();
  }

  decode(ids: Iterable<number>): string {
    return decodePieces(this.vocabulary, ids);
  }

  #scan(text: string): void {
    const words = this.#words;
    const ascii = this.#ascii;
    let i = 0;
    while (i < text.length && !words.isFull) {
      const unit = text.charCodeAt(i);
      const entry = unit < 128 ? (ascii[unit] as number) : SPECIAL;
      if (entry < 128) i = words.pushRun(text, i, ascii);
      else if (entry < SPECIAL) {
        this.#pushAscii(entry, unit);
        i++;
      } else i += this.#pushAt(text, i);
    }
    this.#endWord();
  }

  #asciiEntry(point: number): number {
    const begins = this.#special.mayBeginWith(point) ? SPECIAL : 0;
    const kind = this.#characters.kindOf(point);
    if (kind === CHARACTER.space) return begins | SPACE;
    if (kind === CHARACTER.punctuation) return begins | PUNCTUATION;
    if (kind === CHARACTER.dropped) return begins | DROPPED;
    return begins | (kind === CHARACTER.mapped ? this.#characters.unitOf(point) : point);
  }

  #pushAscii(entry: number, unit: number): void {
    if (entry === DROPPED) return;
    if (entry < 128) {
      this.#words.push(entry);
      return;
    }
    this.#endWord();
    if (entry === PUNCTUATION) this.#words.pushId(this.#asciiIds[unit] as number);
  }

  /** Handles a special token or a character at a unit that is not plain ASCII. Returns its number of units. */
  #pushAt(text: string, i: number): number {
    const unit = text.charCodeAt(i);
    const special = this.#special.mayBeginWith(unit) ? this.#special.matchAt(text, i) : undefined;
    if (special !== undefined) {
      this.#endWord();
      this.#words.pushId(special.id);
      return special.token.length;
    }
    if (unit < 128) {
      this.#pushAscii((this.#ascii[unit] as number) & ~SPECIAL, unit);
      return 1;
    }
    const point = text.codePointAt(i) as number;
    this.#pushPoint(point);
    return point > 0xffff ? 2 : 1;
  }

  #pushPoint(point: number): void {
    const kind = this.#characters.kindOf(point);
    if (kind === CHARACTER.letter) this.#words.pushPoint(point);
    else if (kind === CHARACTER.mapped) this.#words.push(this.#characters.unitOf(point));
    else if (kind === CHARACTER.space) this.#endWord();
    else if (kind === CHARACTER.punctuation) this.#pushAlone(point);
    else if (kind === CHARACTER.letters) this.#pushLetters(point);
    else if (kind === CHARACTER.sequence) this.#pushSequence(point);
    else if (kind === CHARACTER.ideograph) {
      this.#endWord();
      this.#pushLetters(point);
      this.#endWord();
    } else if (kind === CHARACTER.combining) this.#pushCombining(point);
    else if (kind === CHARACTER.barrier) this.#barrier = this.#words.length;
  }

  #pushLetters(point: number): void {
    for (const letter of this.#characters.sequenceOf(point)) this.#words.pushPoint(letter);
  }

  #pushSequence(point: number): void {
    for (const result of this.#characters.sequenceOf(point)) {
      const kind = this.#characters.resultOf(result);
      if (kind === CHARACTER.punctuation) this.#pushAlone(result);
      else if (kind === CHARACTER.combining) this.#pushCombining(result);
      else this.#words.pushPoint(result);
    }
  }

  /** Canonical order: a combining character moves before those directly before it that have a higher class. */
  #pushCombining(point: number): void {
    const own = this.#characters.combiningClassOf(point);
    const word = this.#words.takeFrom(this.#barrier);
    let at = word.length;
    while (at > 0 && this.#characters.combiningClassOf(word[at - 1] as number) > own) at--;
    word.splice(at, 0, point);
    for (const character of word) this.#words.pushPoint(character);
  }

  #pushAlone(point: number): void {
    this.#endWord();
    this.#words.pushPoint(point);
    this.#endWord();
  }

  #endWord(): void {
    this.#words.end();
    this.#barrier = 0;
  }
}

/** A token that is recognised in the original text, before normalisation. */
interface SpecialToken {
  readonly token: string;
  readonly id: number;
}

/** Finds [PAD], [UNK], [CLS], [SEP] and [MASK] in a text: exact, case-sensitive, longest first, no spaces needed. */
class SpecialMatcher {
  readonly #tokens: readonly SpecialToken[];
  readonly #firstUnits: ReadonlySet<number>;

  constructor({ tokens, special }: Vocabulary) {
    const ids = new Set([special.pad, special.unk, special.cls, special.sep, special.mask]);
    this.#tokens = [...ids]
      .map((id) => ({ id, token: tokens[id] ?? "" }))
      .filter(({ token }) => token !== "")
      .sort((a, b) => b.token.length - a.token.length);
    this.#firstUnits = new Set(this.#tokens.map(({ token }) => token.charCodeAt(0)));
  }

  /** A cheap test: false for nearly every unit of a text. */
  mayBeginWith(unit: number): boolean {
    return this.#firstUnits.has(unit);
  }

  matchAt(text: string, position: number): SpecialToken | undefined {
    return this.#tokens.find(({ token }) => text.startsWith(token, position));
  }
}

const REPLACEMENT = 0xfffd;

/**
 * The tokenizer of cpp_embedder, which differs from BERT's. A–Z become lower case. Words end at ASCII whitespace only.
 * Punctuation and accents stay. A word that cannot be cut to its end keeps the pieces before its [UNK]. No word is too
 * long. The text ends at a NUL, as C strings do.
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

/** UTF-8 has no half surrogate pairs: encoders write U+FFFD instead. */
function isLoneSurrogate(text: string, i: number): boolean {
  const unit = text.charCodeAt(i);
  if (unit < 0xd800 || unit > 0xdfff) return false;
  const [other, low, high] =
    unit < 0xdc00 ? [text.charCodeAt(i + 1), 0xdc00, 0xdfff] : [text.charCodeAt(i - 1), 0xd800, 0xdbff];
  return !(other >= low && other <= high);
}
