/** How a BERT tokenizer treats a character. */
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
  /** A separate word. */
  punctuation: 5,
  /** A separate word, made of what `sequenceOf` gives. */
  ideograph: 6,
  /** Removed; the characters around it become neighbours. */
  dropped: 7,
  /** Removed after the marks around it were put in canonical order. Marks may move across it. */
  mark: 8,
  /** Removed after marks were put in order. Marks do not move across it. */
  barrier: 9,
  /** A combining character that stays. It moves before those of a higher class. */
  combining: 10,
  /** Becomes the characters that `sequenceOf` gives, each to be looked at again with `resultOf`. */
  sequence: 11,
} as const;

/** One of `CHARACTER`. */
type CharacterKind = (typeof CHARACTER)[keyof typeof CHARACTER];

/** How a normaliser treats case, accents and ideographs. */
export interface CharacterOptions {
  readonly lowerCase: "lower" | "keep";
  readonly accents: "strip" | "keep";
  readonly ideographs: "apart" | "joined";
}

/** Above this only ideographs, private use and tags are assigned, which are not worth a table. */
const TABLE_LENGTH = 0x20000;

/**
 * BertNormalizer and BertPreTokenizer of the `tokenizers` crate, one character at a time. Looks up every character in
 * the ranges once; after that a table has the answer.
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

  /** The kind of a character that comes from a sequence. It was cleaned and folded already. */
  resultOf(point: number): CharacterKind {
    if (this.#isPunctuation(point)) return CHARACTER.punctuation;
    return this.combiningClassOf(point) > 0 ? CHARACTER.combining : CHARACTER.letter;
  }

  /** The combining class of a character that stays; 0 if nothing moves across it. */
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
    // Half of a surrogate pair is not a character. The crate never sees one.
    if (other.has(point) || isSurrogate(point)) return CHARACTER.dropped;
    // Most ideographs stay as they are. Compatibility ideographs become another one.
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

  /** NFD without Mn, then the lower case of each character alone, so that no sigma becomes a final one. */
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

/** Every printing character that is neither letter nor digit, including symbols such as $ and +. */
function isAsciiPunctuation(point: number): boolean {
  if (point < 0x21 || point > 0x7e) return false;
  const folded = point | 0x20;
  return !(point >= 0x30 && point <= 0x39) && !(folded >= 0x61 && folded <= 0x7a && point >= 0x41);
}

function isSurrogate(point: number): boolean {
  return point >= 0xd800 && point <= 0xdfff;
}

/** Only U+0345 has the highest combining class, 240. A character that moves before it is not a starter. */
function isStarter(point: number): boolean {
  if (point === 0x345) return false;
  const text = `\u0345${String.fromCodePoint(point)}`;
  return text.normalize("NFD").startsWith("\u0345");
}

/**
 * Sets of code points of the `tokenizers` crate, measured there code point by code point (0.23.3). Its categories are
 * those of Unicode 8. A table of the host's Unicode would give other ids for some characters that were assigned later,
 * and different ones on each engine.
 */

/** Cc, Cf and Co without tab, line feed and carriage return, and U+FFFD: removed by `clean_text`. */
const OTHER =
  "0-8 b-c e-1f 7f-9f ad 600-605 61c 6dd 70f 180e 200b-200f 202a-202e 2060-2064 2066-206f e000-f8ff feff " +
  "fff9-fffb fffd 110bd 1bca0-1bca3 1d173-1d17a e0001 e0020-e007f f0000-ffffd 100000-10fffd";

/** P* beyond ASCII. */
const PUNCTUATION =
  "a1 a7 ab b6-b7 bb bf 37e 387 55a-55f 589-58a 5be 5c0 5c3 5c6 5f3-5f4 609-60a 60c-60d 61b 61e-61f 66a-66d 6d4 " +
  "700-70d 7f7-7f9 830-83e 85e 964-965 970 af0 df4 e4f e5a-e5b f04-f12 f14 f3a-f3d f85 fd0-fd4 fd9-fda " +
  "104a-104f 10fb 1360-1368 1400 166d-166e 169b-169c 16eb-16ed 1735-1736 17d4-17d6 17d8-17da 1800-180a " +
  "1944-1945 1a1e-1a1f 1aa0-1aa6 1aa8-1aad 1b5a-1b60 1bfc-1bff 1c3b-1c3f 1c7e-1c7f 1cc0-1cc7 1cd3 2010-2027 " +
  "2030-2043 2045-2051 2053-205e 207d-207e 208d-208e 2308-230b 2329-232a 2768-2775 27c5-27c6 27e6-27ef " +
  "2983-2998 29d8-29db 29fc-29fd 2cf9-2cfc 2cfe-2cff 2d70 2e00-2e2e 2e30-2e42 3001-3003 3008-3011 3014-301f " +
  "3030 303d 30a0 30fb a4fe-a4ff a60d-a60f a673 a67e a6f2-a6f7 a874-a877 a8ce-a8cf a8f8-a8fa a8fc a92e-a92f " +
  "a95f a9c1-a9cd a9de-a9df aa5c-aa5f aade-aadf aaf0-aaf1 abeb fd3e-fd3f fe10-fe19 fe30-fe52 fe54-fe61 fe63 " +
  "fe68 fe6a-fe6b ff01-ff03 ff05-ff0a ff0c-ff0f ff1a-ff1b ff1f-ff20 ff3b-ff3d ff3f ff5b ff5d ff5f-ff65 " +
  "10100-10102 1039f 103d0 1056f 10857 1091f 1093f 10a50-10a58 10a7f 10af0-10af6 10b39-10b3f 10b99-10b9c " +
  "11047-1104d 110bb-110bc 110be-110c1 11140-11143 11174-11175 111c5-111c9 111cd 111db 111dd-111df 11238-1123d " +
  "112a9 114c6 115c1-115d7 11641-11643 1173c-1173e 12470-12474 16a6e-16a6f 16af5 16b37-16b3b 16b44 1bc9f " +
  "1da87-1da8b";

/** Mn, and characters that decompose into nothing else: removed by `strip_accents`. */
const NONSPACING_MARKS =
  "300-36f 483-487 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-65f 670 6d6-6dc 6df-6e4 6e7-6e8 6ea-6ed 711 " +
  "730-74a 7a6-7b0 7eb-7f3 816-819 81b-823 825-827 829-82d 859-85b 8e3-902 93a 93c 941-948 94d 951-957 962-963 " +
  "981 9bc 9c1-9c4 9cd 9e2-9e3 a01-a02 a3c a41-a42 a47-a48 a4b-a4d a51 a70-a71 a75 a81-a82 abc ac1-ac5 ac7-ac8 " +
  "acd ae2-ae3 b01 b3c b3f b41-b44 b4d b56 b62-b63 b82 bc0 bcd c00 c3e-c40 c46-c48 c4a-c4d c55-c56 c62-c63 c81 " +
  "cbc cbf cc6 ccc-ccd ce2-ce3 d01 d41-d44 d4d d62-d63 dca dd2-dd4 dd6 e31 e34-e3a e47-e4e eb1 eb4-eb9 ebb-ebc " +
  "ec8-ecd f18-f19 f35 f37 f39 f71-f7e f80-f84 f86-f87 f8d-f97 f99-fbc fc6 102d-1030 1032-1037 1039-103a " +
  "103d-103e 1058-1059 105e-1060 1071-1074 1082 1085-1086 108d 109d 135d-135f 1712-1714 1732-1734 1752-1753 " +
  "1772-1773 17b4-17b5 17b7-17bd 17c6 17c9-17d3 17dd 180b-180d 18a9 1920-1922 1927-1928 1932 1939-193b " +
  "1a17-1a18 1a1b 1a56 1a58-1a5e 1a60 1a62 1a65-1a6c 1a73-1a7c 1a7f 1ab0-1abd 1b00-1b03 1b34 1b36-1b3a 1b3c " +
  "1b42 1b6b-1b73 1b80-1b81 1ba2-1ba5 1ba8-1ba9 1bab-1bad 1be6 1be8-1be9 1bed 1bef-1bf1 1c2c-1c33 1c36-1c37 " +
  "1cd0-1cd2 1cd4-1ce0 1ce2-1ce8 1ced 1cf4 1cf8-1cf9 1dc0-1df5 1dfc-1dff 20d0-20dc 20e1 20e5-20f0 2cef-2cf1 " +
  "2d7f 2de0-2dff 302a-302d 3099-309a a66f a674-a67d a69e-a69f a6f0-a6f1 a802 a806 a80b a825-a826 a8c4 " +
  "a8e0-a8f1 a926-a92d a947-a951 a980-a982 a9b3 a9b6-a9b9 a9bc a9e5 aa29-aa2e aa31-aa32 aa35-aa36 aa43 aa4c " +
  "aa7c aab0 aab2-aab4 aab7-aab8 aabe-aabf aac1 aaec-aaed aaf6 abe5 abe8 abed fb1e fe00-fe0f fe20-fe2f 101fd " +
  "102e0 10376-1037a 10a01-10a03 10a05-10a06 10a0c-10a0f 10a38-10a3a 10a3f 10ae5-10ae6 11001 11038-11046 " +
  "1107f-11081 110b3-110b6 110b9-110ba 11100-11102 11127-1112b 1112d-11134 11173 11180-11181 111b6-111be " +
  "111ca-111cc 1122f-11231 11234 11236-11237 112df 112e3-112ea 11300-11301 1133c 11340 11366-1136c 11370-11374 " +
  "114b3-114b8 114ba 114bf-114c0 114c2-114c3 115b2-115b5 115bc-115bd 115bf-115c0 115dc-115dd 11633-1163a 1163d " +
  "1163f-11640 116ab 116ad 116b0-116b5 116b7 1171d-1171f 11722-11725 11727-1172b 16af0-16af4 16b30-16b36 " +
  "16f8f-16f92 1bc9d-1bc9e 1d167-1d169 1d17b-1d182 1d185-1d18b 1d1aa-1d1ad 1d242-1d244 1da00-1da36 1da3b-1da6c " +
  "1da75 1da84 1da9b-1da9f 1daa1-1daaf 1e8d0-1e8d6 e0100-e01ef";

/** `is_whitespace`: these become a plain space. Vertical tab, form feed and U+0085 are Cc and removed before. */
const SPACES = "9-a d 20 a0 1680 2000-200a 2028-2029 202f 205f 3000";

/** `is_chinese_char`. The crate has 2b920; BERT's own list has 2b820. */
const IDEOGRAPHS = "3400-4dbf 4e00-9fff f900-faff 20000-2a6df 2a700-2b73f 2b740-2b81f 2b920-2ceaf 2f800-2fa1f";

/** Characters that decompose only in versions of Unicode newer than that of the crate's normaliser (9). */
const DECOMPOSED_LATER = "105c9 105e4 11383 11385 1138e 11391 113c5 113c7-113c8 11938 16121-16128 16d68-16d6a";

/** Combining characters that `strip_accents` leaves, by their canonical combining class in Unicode 9. */
const KEPT_COMBINING: Readonly<Record<number, string>> = {
  7: "11446 1e94a",
  9: "1b44 1baa 1bf2-1bf3 a953 a9c0 111c0 11235 1134d 11442 116b6 11c3f",
  216: "1d165-1d166 1d16e-1d172",
  224: "302e-302f",
  226: "1d16d",
  230: "8d4-8e1 1dfb 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e944-1e949",
};

/** A sorted list of ranges of code points. */
class CodePointSet {
  /** First and last of each range, one after the other. */
  readonly #bounds: Uint32Array;

  /** `ranges` is hexadecimal, ascending: "9-a d 20". */
  constructor(ranges: string) {
    const bounds = ranges.split(" ").flatMap((range) => {
      const [first = "", last = first] = range.split("-");
      return [Number.parseInt(first, 16), Number.parseInt(last, 16)];
    });
    this.#bounds = Uint32Array.from(bounds);
  }

  has(point: number): boolean {
    const bounds = this.#bounds;
    let low = 0;
    let high = bounds.length / 2;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (point > (bounds[2 * middle + 1] as number)) low = middle + 1;
      else if (point < (bounds[2 * middle] as number)) high = middle;
      else return true;
    }
    return false;
  }
}

/** The sets that the BERT normaliser and pre-tokenizer use. */
interface CodePointSets {
  readonly other: CodePointSet;
  readonly punctuation: CodePointSet;
  readonly nonspacingMarks: CodePointSet;
  readonly spaces: CodePointSet;
  readonly ideographs: CodePointSet;
  readonly decomposedLater: CodePointSet;
  /** Class and set. */
  readonly keptCombining: readonly (readonly [number, CodePointSet])[];
}

/** Parses the tables; a tokenizer does so once. */
function codePointSets(): CodePointSets {
  return {
    other: new CodePointSet(OTHER),
    punctuation: new CodePointSet(PUNCTUATION),
    nonspacingMarks: new CodePointSet(NONSPACING_MARKS),
    spaces: new CodePointSet(SPACES),
    ideographs: new CodePointSet(IDEOGRAPHS),
    decomposedLater: new CodePointSet(DECOMPOSED_LATER),
    keptCombining: Object.entries(KEPT_COMBINING).map(([key, ranges]) => [Number(key), new CodePointSet(ranges)]),
  };
}
