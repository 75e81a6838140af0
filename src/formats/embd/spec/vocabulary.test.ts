import { describe, expect, test } from "vitest";
import { buildEmbd, type EmbdFile, SPECIAL_TOKENS } from "../../../../test/builders/embd.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { stringsOf } from "../../../model/bert/vocabulary.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import type { EmbdModel } from "../model.ts";
import { openEmbd } from "../read.ts";
import { decodeTokens, TokenList, walkTokens } from "./vocabulary.ts";

const open = (file: EmbdFile): Promise<EmbdModel> =>
  openEmbd(memorySource(buildEmbd(file)), { engine: portableEngine(), limits: {} });
const idsOf = ({ metadata }: EmbdModel): unknown => {
  const value = metadata.get("vocabulary.special");
  return value?.type === "array" ? value.slice().map((id) => ("value" in id ? id.value : undefined)) : undefined;
};
const codes = ({ warnings }: EmbdModel): string[] => warnings.map(({ code }) => code);
const TOKENS = [...SPECIAL_TOKENS, "a", "b"];
/** Bytes of the entries: 2 + 5 four times, 2 + 6, 3 twice. */
const ENTRY_BYTES = 42;

describe("decodeVocabularySection()", () => {
  test("finds the special block at either end of the tokens, whatever its offset counts from", async () => {
    for (const pointer of [72 + 12 + ENTRY_BYTES, 12 + ENTRY_BYTES, ENTRY_BYTES]) {
      const model = await open({ tokens: TOKENS, special: [0, 1, 2, 3, 4], counts: { pointer } });
      expect(idsOf(model), String(pointer)).toEqual([0, 1, 2, 3, 4]);
      expect(codes(model)).toEqual([]);
    }
  });
  test("an offset from the section is not misread as an offset from the file that falls inside the tokens", async () => {
    const tokens = [...SPECIAL_TOKENS, ...Array.from({ length: 40 }, (_, i) => `t${i}`)];
    const body = tokens.reduce((sum, token) => sum + 2 + token.length, 0);
    // The section begins at 72, so this absolute position is well inside the entries.
    expect(12 + body).toBeGreaterThan(72 + 12);
    const model = await open({ tokens, counts: { pointer: 12 + body } });
    expect(idsOf(model)).toEqual([0, 1, 2, 3, 4]);
    expect(codes(model)).toEqual([]);
  });
  test("with an invalid offset the ids come from the tokens", async () => {
    const model = await open({ tokens: TOKENS, special: [9, 9, 9, 9, 9], counts: { pointer: 0xffff_fff0 } });
    expect(idsOf(model)).toEqual([0, 1, 2, 3, 4]);
    expect(codes(model)).toEqual(["format/embd.special-tokens"]);
    const without = await open({ tokens: ["a"], counts: { pointer: 0xffff_fff0 } });
    expect(idsOf(without)).toBeUndefined();
  });
  test("if ids and tokens disagree, the tokens win", async () => {
    const model = await open({ tokens: TOKENS, special: [0, 1, 3, 2, 4] });
    expect(idsOf(model)).toEqual([0, 1, 2, 3, 4]);
    expect(codes(model)).toEqual(["format/embd.special-tokens", "format/embd.special-tokens"]);
    expect(model.warnings[0]?.message).toBe("The id of [CLS] must be 2, found 3");
  });
  test("a vocabulary with other spellings of its special tokens is left alone", async () => {
    const model = await open({ tokens: ["<pad>", "<unk>", "<s>", "</s>", "<mask>"], special: [0, 1, 2, 3, 4] });
    expect(codes(model)).toEqual([]);
    const beyond = await open({ tokens: ["<pad>"], special: [0, 0, 0, 0, 7] });
    expect(codes(beyond)).toEqual(["format/embd.special-tokens"]);
  });
  test("total_size may include header and special block, and nothing else", async () => {
    for (const extra of [12, 20, 32]) {
      const model = await open({ tokens: TOKENS, counts: { vocabularyTotal: ENTRY_BYTES + extra } });
      expect(codes(model), String(extra)).toEqual(["format/embd.total-size"]);
    }
    const metadata = [["k", "v"]] as const;
    expect(codes(await open({ metadata, counts: { metadataTotal: 6 + 8 } }))).toEqual(["format/embd.total-size"]);
    for (const counts of [{ vocabularyTotal: ENTRY_BYTES - 1 }, { metadataTotal: 5 }]) {
      await expect(open({ tokens: TOKENS, metadata, counts })).rejects.toMatchObject({
        code: "format/embd.total-size",
      });
    }
  });
  test("a flag without a section is refused, a section without its flag is not used", async () => {
    const empty = open({ flags: 7 });
    await expect(empty).rejects.toMatchObject({ code: "format/embd.vocabulary", at: { path: "header.vocab_size" } });
    const unused = await open({ tokens: TOKENS, flags: 6 });
    expect(unused.metadata.get("vocabulary.tokens")).toBeUndefined();
    expect(codes(unused)).toEqual(["format/embd.unused-vocabulary"]);
  });
  test("a text under the vocabulary's key is dropped with a warning", async () => {
    const model = await open({ tokens: TOKENS, metadata: [["vocabulary.tokens", "text"]] });
    expect(stringsOf(model.metadata.get("vocabulary.tokens"))).toEqual(TOKENS);
    expect(codes(model)).toEqual(["format/embd.reserved-key"]);
    expect(model.unread?.map(({ name }) => name)).toEqual(["vocabulary.tokens"]);
  });
});

describe("TokenList", () => {
  const walk = walkTokens(Uint8Array.of(1, 0, 0x61, 0, 0, 2, 0, 0xff, 0x62), 0, 3);
  const tokens = "tokens" in walk ? walk.tokens : undefined;
  test("gives texts, and bytes if they are not UTF-8", () => {
    expect(tokens?.slice(0, 2)).toEqual([
      { type: "string", value: "a" },
      { type: "string", value: "" },
    ]);
    expect(tokens?.slice(2)).toEqual([{ type: "string", value: "\ufffdb", raw: Uint8Array.of(0xff, 0x62) }]);
    expect(tokens?.slice(-1)).toHaveLength(1);
    expect(tokens?.slice(5, 9)).toEqual([]);
  });
  test("is decoded from its own encoding, and from nothing else", () => {
    const encoded = tokens?.encoded;
    if (encoded === undefined) throw new Error("not encoded");
    const again = decodeTokens(encoded);
    expect(again).toBeInstanceOf(TokenList);
    expect((again as unknown as TokenList).encoded).toEqual(encoded);
    const { bytes } = encoded;
    for (const damaged of [bytes.slice(0, -1), bytes.slice(0, 3), Uint8Array.of(255, 255, 255, 255)]) {
      expect(decodeTokens({ encoding: "embd", bytes: damaged })).toBeUndefined();
    }
    expect(decodeTokens({ encoding: "gguf", bytes })).toBeUndefined();
  });
});
