/** The sizes of the Llama 3 tokenizer. People complain about slow headers with this tokenizer. */
export const TOKEN_COUNT = 128_256;
export const MERGE_COUNT = 280_147;
const SPECIAL_COUNT = 256;

const SYLLABLES =
  "a e i o u an ar at el en er es in is it on or ou re st th ing ion ent tion ment able pre con pro un de com str ch sh qu ck ll ss ng nd".split(
    " ",
  );
/** UTF-8 of Cyrillic and Chinese text as byte-level BPE spells it: two and three substitute characters per letter. */
const FOREIGN = ["Ð°", "Ð¾", "Ð½", "ÑĢ", "Ñģ", "ä¸Ģ", "çļĦ", "æĺ¯", "åľ¨", "äºº"];

/** mulberry32, a public-domain 32-bit generator. It gives the same vocabulary on every machine. */
function randomSource(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function word(random: (below: number) => number): string {
  const pool = random(6) === 0 ? FOREIGN : SYLLABLES;
  let text = random(5) < 2 ? "Ġ" : "";
  for (let count = 1 + random(4); count > 0; count--) text += pool[random(pool.length)];
  return text;
}

/** Distinct tokens: single bytes, then words, then 256 special ones, as in a byte-level BPE vocabulary. */
export function makeTokens(): string[] {
  const random = randomSource(1);
  const tokens = new Set<string>();
  // Byte-level BPE moves unprintable bytes to U+0100 and above. Here all 256 are there, one character each.
  for (let byte = 0; byte < 256; byte++) tokens.add(String.fromCharCode(0x100 + byte));
  while (tokens.size < TOKEN_COUNT - SPECIAL_COUNT) tokens.add(word(random));
  for (let index = 0; index < SPECIAL_COUNT; index++) tokens.add(`<|reserved_special_token_${index}|>`);
  return [...tokens];
}

/** ggml's token types: 1 normal, 3 control. */
export function makeTokenTypes(): Int32Array {
  return new Int32Array(TOKEN_COUNT).fill(1).fill(3, TOKEN_COUNT - SPECIAL_COUNT);
}

/** Merge rules, "left right". */
export function makeMerges(): string[] {
  const random = randomSource(2);
  return Array.from({ length: MERGE_COUNT }, () => `${word(random)} ${word(random)}`);
}
