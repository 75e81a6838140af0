import type { Vocabulary } from "../../model/bert/vocabulary.ts";
import { CHARACTER, type CharacterOptions, Characters } from "./characters.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { decodePieces, WordPieces } from "./word-pieces.ts";

interface BertTokenizerOptions extends CharacterOptions {
  readonly maxWordLength: number;
}

/** An ASCII character that goes on the word is its own entry in the table, in lower case; others have one of these. */
const SPACE = 0x80;
const PUNCTUATION = 0x100;
const DROPPED = 0x180;
/** A special token may begin here; the rest of the entry says what happens where none does. */
const SPECIAL = 0x400;

/**
 * BERT's tokenizer as the `tokenizers` crate has it: special tokens in the text, BertNormalizer, BertPreTokenizer and
 * WordPiece in one pass over the string, without intermediate ones.
 */
export class BertTokenizer implements Tokenizer {
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

  /** Takes what begins at a unit that needs a closer look; gives the number of units. */
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

  /** Canonical order: a combining character goes before the ones right before it that have a higher class. */
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

/** A token that is recognised in the text as it was typed, before anything is normalised. */
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

  /** Cheap: false for nearly every unit of a text. */
  mayBeginWith(unit: number): boolean {
    return this.#firstUnits.has(unit);
  }

  matchAt(text: string, position: number): SpecialToken | undefined {
    return this.#tokens.find(({ token }) => text.startsWith(token, position));
  }
}
