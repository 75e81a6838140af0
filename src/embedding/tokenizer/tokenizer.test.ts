import { expect, test } from "vitest";
import { isTareError, type TareError } from "../../base/errors.ts";
import { createTokenizer, type TokenizerOptions } from "./tokenizer.ts";

const SPECIAL = { pad: 0, unk: 1, cls: 2, sep: 3, mask: 4 };
const NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/** What a text becomes in a vocabulary of these tokens, "|" between them. */
function pieces(text: string, tokens: readonly string[], options: TokenizerOptions = {}): string {
  const all = [...NAMES, ...tokens];
  const ids = createTokenizer({ tokens: all, special: SPECIAL }, options).encode(text, 1e6);
  return [...ids.subarray(1, -1)].map((id) => all[id]).join("|");
}

/** A vocabulary that knows every one of these characters, at the beginning of words and inside. */
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
  // U+302E has class 224, U+1B44 class 9, U+1D165 class 216, U+1D16D class 226; the crate's own answers.
  const known = letters("a\u302e\u1b44\u{1d165}\u{1d16d}");
  expect(pieces("a\u302e\u1b44", known)).toBe("a|##\u1b44|##\u302e");
  expect(pieces("a\u1b44\u302e", known)).toBe("a|##\u1b44|##\u302e");
  expect(pieces("\u{1d16d}\u302e\u{1d165}\u1b44", known)).toBe("\u1b44|##\u{1d165}|##\u302e|##\u{1d16d}");
  // A mark with a class is no bar although it vanishes; one without a class (U+0941) is.
  expect(pieces("a\u302e\u0301\u1b44", known)).toBe("a|##\u1b44|##\u302e");
  expect(pieces("a\u302e\u0941\u1b44", known)).toBe("a|##\u302e|##\u1b44");
  // A removed format character was never there.
  expect(pieces("a\u302e\u200b\u1b44", known)).toBe("a|##\u1b44|##\u302e");
  // Without strip_accents nothing is decomposed, so nothing is ordered.
  expect(pieces("a\u302e\u1b44", known, { accents: "keep" })).toBe("a|##\u302e|##\u1b44");
});

test("characters that decompose since Unicode 9 are left whole", () => {
  expect(pieces("\u{11383}", letters("\u{11383}\u{11382}"))).toBe("\u{11383}");
  expect(pieces("\u{1d15e}", letters("\u{1d157}\u{1d165}"))).toBe("\u{1d157}|##\u{1d165}");
});

test("ideographs follow the crate's list, gap included", () => {
  const known = letters("a\u{2b820}\u{2b920}");
  expect(pieces("a\u{2b920}a", known)).toBe("a|\u{2b920}|a");
  expect(pieces("a\u{2b820}a", known)).toBe("a|##\u{2b820}|##a");
});

test("special tokens may be called otherwise, and the longest one wins", () => {
  const tokens = ["<p>", "?", "<s>", "</s>", "<s>x", "a"];
  const tokenizer = createTokenizer({ tokens, special: SPECIAL });
  expect([...tokenizer.encode("a<s>xa</s>", 16)]).toEqual([2, 5, 4, 5, 3, 3]);
  const plain = createTokenizer(
    { tokens: ["é!", "?", "c", "s", "m", "a", "é"], special: SPECIAL },
    { accents: "keep" },
  );
  expect([...plain.encode("aé!é", 16)]).toEqual([2, 5, 0, 6, 3]);
});

test("createTokenizer() refuses special ids that no token has", () => {
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

/** 2^`doublings` different tokens of one hash: each block of three units leads from a state to the same next one. */
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

/** Two units lead to states with one upper half, sooner or later; the third unit makes the lower half zero. */
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
