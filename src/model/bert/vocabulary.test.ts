import { describe, expect, test } from "vitest";
import { TINY_TOKENS } from "../../../test/builders/bert.ts";
import { arrayValue, Metadata, type MetadataEntry, stringValue } from "../metadata.ts";
import { parseTokenizerJson } from "./sidecars.ts";
import { parseVocabTxt, vocabularyEntries, vocabularyFromGguf, vocabularyFromMetadata } from "./vocabulary.ts";

const at = { source: "vocab" };
const SPECIAL = { pad: 0, unk: 1, cls: 2, sep: 3, mask: 4 };

describe("parseVocabTxt()", () => {
  test("reads one token per line, with any line ending", () => {
    const text = TINY_TOKENS.join("\n");
    for (const spelt of [text, `${text}\n`, `${text.replaceAll("\n", "\r\n")}\r\n`, `\ufeff${text}`]) {
      expect(parseVocabTxt(spelt, at)).toEqual({ tokens: TINY_TOKENS, special: SPECIAL });
    }
  });
  test("an empty line takes an id, and spaces belong to tokens", () => {
    expect(parseVocabTxt("[UNK]\n\n[CLS]\n[SEP]\n x \n", at)).toEqual({
      tokens: ["[UNK]", "", "[CLS]", "[SEP]", " x "],
      special: { pad: 0, unk: 0, cls: 2, sep: 3, mask: 0 },
    });
  });
  test("names the missing special tokens", () => {
    expect(() => parseVocabTxt("[UNK]\nhello\n", at)).toThrow("found no [CLS], [SEP]");
    expect(() => parseVocabTxt("", at)).toThrow("found no [UNK], [CLS], [SEP]");
  });
});

describe("vocabularyFromMetadata()", () => {
  test("reads back what vocabularyEntries() made", () => {
    const vocabulary = { tokens: TINY_TOKENS, special: SPECIAL };
    expect(vocabularyFromMetadata(new Metadata(vocabularyEntries(vocabulary)), at)).toEqual(vocabulary);
  });
  test("finds special tokens by their spelling if no ids are stored, and refuses ids without a token", () => {
    const tokens = { key: "vocabulary.tokens", value: arrayValue(TINY_TOKENS.map(stringValue), "string") };
    expect(vocabularyFromMetadata(new Metadata([tokens]), at)?.special).toEqual(SPECIAL);
    const ids = arrayValue(
      [0, 10, 2, 3, 4].map((value) => ({ type: "u32" as const, value })),
      "u32",
    );
    expect(() => vocabularyFromMetadata(new Metadata([tokens, { key: "vocabulary.special", value: ids }]), at)).toThrow(
      "ids must be < 10, found 10",
    );
  });
  test("is undefined if there is none", () => {
    expect(vocabularyFromMetadata(new Metadata(), at)).toBeUndefined();
    expect(
      vocabularyFromMetadata(new Metadata([{ key: "vocabulary.tokens", value: stringValue("x") }]), at),
    ).toBeUndefined();
  });
});

describe("vocabularyFromGguf()", () => {
  /** Tokens as llama.cpp's converter rewrites them: brackets stay, "##" is removed, words get a mark. */
  const rewritten = TINY_TOKENS.map((token) => {
    if (/^\[.*\]$/.test(token)) return token;
    return token.startsWith("##") ? token.slice(2) : `\u2581${token}`;
  });
  const entries = (tokens: readonly string[], more: readonly MetadataEntry[] = []): Metadata =>
    new Metadata([
      { key: "tokenizer.ggml.model", value: stringValue("bert") },
      { key: "tokenizer.ggml.tokens", value: arrayValue(tokens.map(stringValue), "string") },
      ...more,
    ]);
  test("restores BERT's spelling of the tokens", () => {
    expect(rewritten).toContain("\u2581[");
    expect(vocabularyFromGguf(entries(rewritten), at)).toEqual({ tokens: TINY_TOKENS, special: SPECIAL });
  });
  test("takes the ids from the file's keys, including the misspelt one", () => {
    const ids = [
      ["tokenizer.ggml.bos_token_id", 5],
      ["tokenizer.ggml.seperator_token_id", 6],
      ["tokenizer.ggml.padding_token_id", 99],
    ] as const;
    const more = ids.map(([key, value]) => ({ key, value: { type: "u32" as const, value } }));
    expect(vocabularyFromGguf(entries(rewritten, more), at)?.special).toEqual({ ...SPECIAL, cls: 5, sep: 6 });
  });
  test("leaves a list that was not rewritten unchanged, and ignores other tokenizers", () => {
    expect(vocabularyFromGguf(entries(TINY_TOKENS), at)?.tokens).toEqual(TINY_TOKENS);
    expect(
      vocabularyFromGguf(entries(rewritten).with("tokenizer.ggml.model", stringValue("gpt2")), at),
    ).toBeUndefined();
  });
});

describe("parseTokenizerJson()", () => {
  const vocab = Object.fromEntries(TINY_TOKENS.map((token, id) => [token, id]));
  const json = (more: object, model: object = {}): string =>
    JSON.stringify({ model: { type: "WordPiece", unk_token: "[UNK]", vocab, ...model }, ...more });
  test("reads the tokens by id, added ones too, with holes between", () => {
    const facts = parseTokenizerJson(json({ added_tokens: [{ id: 12, content: "<x>", special: true }] }), at);
    expect(facts?.vocabulary).toEqual({ tokens: [...TINY_TOKENS, "", "", "<x>"], special: SPECIAL });
    expect(facts?.lowerCase).toBeUndefined();
  });
  test("takes special tokens from the places that name them", () => {
    const single = [{ SpecialToken: { id: "hello" } }, { Sequence: { id: "A" } }, { SpecialToken: { id: "world" } }];
    const template = parseTokenizerJson(json({ post_processor: { type: "TemplateProcessing", single } }), at);
    expect(template?.vocabulary.special).toMatchObject({ cls: 5, sep: 6 });
    const pair = { type: "BertProcessing", cls: ["world", 6], sep: ["hello", 5] };
    const bert = parseTokenizerJson(json({ post_processor: pair, padding: { pad_token: "##s" } }), at);
    expect(bert?.vocabulary.special).toMatchObject({ cls: 6, sep: 5, pad: 9 });
  });
  test.each([
    [{ type: "BertNormalizer", lowercase: true, strip_accents: null }, "lower", undefined],
    [{ type: "BertNormalizer", lowercase: false, strip_accents: true }, "keep", "strip"],
    [
      {
        type: "Sequence",
        normalizers: [{ type: "NFC" }, { type: "BertNormalizer", lowercase: true, strip_accents: false }],
      },
      "lower",
      "keep",
    ],
    [null, undefined, undefined],
  ])("%j", (normalizer, lowerCase, stripAccents) => {
    const facts = parseTokenizerJson(json({ normalizer }), at);
    expect([facts?.lowerCase, facts?.stripAccents]).toEqual([lowerCase, stripAccents]);
  });
  test("gives the rules for ideographs and long words, also as part of the vocabulary", () => {
    const normalizer = { type: "BertNormalizer", lowercase: false, handle_chinese_chars: false };
    const facts = parseTokenizerJson(json({ normalizer }, { max_input_chars_per_word: 50 }), at);
    const rules = { lowerCase: "keep", ideographs: "joined", maxWordLength: 50 };
    expect(facts).toMatchObject(rules);
    expect(facts?.vocabulary.rules).toMatchObject(rules);
    expect(facts?.notes).toEqual([]);
  });
  test.each([
    [{ normalizer: { type: "BertNormalizer", clean_text: false } }, {}, "it keeps control characters"],
    [{ normalizer: { type: "NFKC" } }, {}, "its normalizer is NFKC, not BertNormalizer"],
    [{ pre_tokenizer: { type: "Whitespace" } }, {}, "its pre_tokenizer is Whitespace, not BertPreTokenizer"],
    [{}, { continuing_subword_prefix: "@@" }, 'its pieces are continued by "@@", not "##"'],
    [
      {
        added_tokens: [
          { id: 0, content: "[PAD]" },
          { id: 12, content: "<x>" },
        ],
      },
      {},
      'it adds tokens ("<x>")',
    ],
  ])("notes a step that we do not do: %j %j", (more, model, note) => {
    const notes = parseTokenizerJson(json(more, model), at)?.notes;
    expect(notes).toEqual([expect.stringContaining(note)]);
  });
  test("is undefined for tokenizers of other kinds", () => {
    for (const type of ["BPE", "Unigram", "WordLevel"])
      expect(parseTokenizerJson(json({}, { type }), at)).toBeUndefined();
    expect(parseTokenizerJson('{"model":{"type":"WordPiece","vocab":[]}}', at)).toBeUndefined();
  });
  test.each([["-1"], ["1.5"], ["1e9"], ['"3"'], ["1048576"]])("refuses the id %s before it allocates for it", (id) => {
    const text = `{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"x":${id}}}}`;
    expect(() => parseTokenizerJson(text, at)).toThrow('the id of "x" must be 0 to 1048575');
  });
});
