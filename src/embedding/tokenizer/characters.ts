import { type CodePointSets, codePointSets } from "./code-point-sets.ts";

/** What a BERT tokenizer does with a character. */
export const CHARACTER = {
  /** Not looked at yet. */
  unknown: 0,
  /** Part of a word, as it is. */
  letter: 1,
  /** Part of a word, as the one UTF-16 unit that `unitOf` gives. */
  mapped: 2,
  /** Part of a word, as the letters that `sequenceOf` gives. */
  letters: 3,
  /** Ends a word. */
  space: 4,
  /** A word of its own. */
  punctuation: 5,
  /** A word of its own, made of what `sequenceOf` gives. */
  ideograph: 6,
  /** Vanishes; its neighbours become neighbours. */
  dropped: 7,
  /** Vanishes after marks around it were put in canonical order, and is no bar to that order. */
  mark: 8,
  /** Vanishes after marks were put in order, and is a bar. */
  barrier: 9,
  /** A combining character that stays: moves before those of a higher class. */
  combining: 10,
  /** Becomes the characters that `sequenceOf` gives, each to be looked at again with `resultOf`. */
  sequence: 11,
} as const;

/** One of `CHARACTER`. */
export type CharacterKind = (typeof CHARACTER)[keyof typeof CHARACTER];

/** How a normaliser treats case, accents and ideographs. */
export interface CharacterOptions {
  readonly lowerCase: "lower" | "keep";
  readonly accents: "strip" | "keep";
  readonly ideographs: "apart" | "joined";
}

/** Above this only ideographs, private use and tags are assigned: not worth a table. */
const TABLE_LENGTH = 0x20000;

/**
 * BertNormalizer and BertPreTokenizer of the `tokenizers` crate, one character at a time. Every character is looked up
 * in the ranges once; after that a table answers.
 */
export class Characters {
  readonly #options: CharacterOptions;
  readonly #kinds = new Uint8Array(TABLE_LENGTH);
  readonly #units = new Uint16Array(0x10000);
  readonly #sequences = new Map<number, readonly number[]>();
  #sets: CodePointSets | undefined;

  constructor(options: CharacterOptions) {
    this.#options = options;
  }

  kindOf(point: number): CharacterKind {
    if (point >= TABLE_LENGTH) return this.#resolve(point);
    const known = this.#kinds[point] as CharacterKind;
    if (known !== CHARACTER.unknown) return known;
    const kind = this.#resolve(point);
    this.#kinds[point] = kind;
    return kind;
  }

  /** What a `mapped` character becomes. */
  unitOf(point: number): number {
    return this.#units[point] as number;
  }

  /** What `letters`, a `sequence` or an `ideograph` becomes. */
  sequenceOf(point: number): readonly number[] {
    let sequence = this.#sequences.get(point);
    if (sequence === undefined) {
      sequence = this.#normalize(point);
      this.#sequences.set(point, sequence);
    }
    return sequence;
  }

  /** How a character counts that comes out of a sequence: it was cleaned and folded already. */
  resultOf(point: number): CharacterKind {
    if (this.#isPunctuation(point)) return CHARACTER.punctuation;
    return this.combiningClassOf(point) > 0 ? CHARACTER.combining : CHARACTER.letter;
  }

  /** Of a character that stays; 0 for one that nothing moves across. */
  combiningClassOf(point: number): number {
    if (this.#options.accents === "keep") return 0;
    return this.#all.keptCombining.find(([, set]) => set.has(point))?.[0] ?? 0;
  }

  get #all(): CodePointSets {
    this.#sets ??= codePointSets();
    return this.#sets;
  }

  #resolve(point: number): CharacterKind {
    const { other, spaces, ideographs, nonspacingMarks } = this.#all;
    if (spaces.has(point)) return CHARACTER.space;
    // Half of a surrogate pair is no character; the crate never sees one.
    if (other.has(point) || isSurrogate(point)) return CHARACTER.dropped;
    // Most ideographs stay as they are; those that are there for compatibility become another one.
    if (this.#options.ideographs === "apart" && ideographs.has(point)) {
      return this.sequenceOf(point)[0] === point ? CHARACTER.punctuation : CHARACTER.ideograph;
    }
    if (this.#options.accents === "strip" && nonspacingMarks.has(point)) {
      return isStarter(point) ? CHARACTER.barrier : CHARACTER.mark;
    }
    const sequence = this.#normalize(point);
    const [only = point] = sequence;
    if (sequence.length === 1 && only === point) return this.resultOf(point);
    if (!sequence.every((result) => this.resultOf(result) === CHARACTER.letter)) return CHARACTER.sequence;
    if (sequence.length !== 1 || only > 0xffff || point > 0xffff) return CHARACTER.letters;
    this.#units[point] = only;
    return CHARACTER.mapped;
  }

  /** NFD without Mn, then the lower case of each character by itself: a final sigma is one only within a word. */
  #normalize(point: number): readonly number[] {
    const { lowerCase, accents } = this.#options;
    let characters = [String.fromCodePoint(point)];
    if (accents === "strip") {
      const { decomposedLater, nonspacingMarks } = this.#all;
      if (!decomposedLater.has(point)) characters = [...String.fromCodePoint(point).normalize("NFD")];
      characters = characters.filter((character) => !nonspacingMarks.has(character.codePointAt(0) as number));
    }
    if (lowerCase === "lower") characters = characters.flatMap((character) => [...character.toLowerCase()]);
    return characters.map((character) => character.codePointAt(0) as number);
  }

  #isPunctuation(point: number): boolean {
    return point < 128 ? isAsciiPunctuation(point) : this.#all.punctuation.has(point);
  }
}

/** Every printing character that is neither letter nor digit, symbols such as $ and + included. */
function isAsciiPunctuation(point: number): boolean {
  if (point < 0x21 || point > 0x7e) return false;
  const folded = point | 0x20;
  return !(point >= 0x30 && point <= 0x39) && !(folded >= 0x61 && folded <= 0x7a && point >= 0x41);
}

function isSurrogate(point: number): boolean {
  return point >= 0xd800 && point <= 0xdfff;
}

/** U+0345 alone has the highest combining class, 240: whatever moves before it is no starter. */
function isStarter(point: number): boolean {
  if (point === 0x345) return false;
  const text = `\u0345${String.fromCodePoint(point)}`;
  return text.normalize("NFD").startsWith("\u0345");
}
