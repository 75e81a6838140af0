import { expect, test } from "vitest";
import { encodeUtf8 } from "../../../base/text.ts";
import { hashName } from "./tensors.ts";

test.each([
  ["", 0x811c9dc5],
  ["a", 0xe40c292c],
  ["foobar", 0xbf9cf968],
  ["embeddings.word_embeddings.weight", 0xdb668d90],
  ["embeddings.position_embeddings.weight", 0x4399be57],
  ["embeddings.token_type_embeddings.weight", 0x4a3c596e],
  ["declinate", 0xe20e47d2],
  ["macallums", 0xe20e47d2],
])("hashName() of %j is the FNV-1a of its bytes", (name, hash) => {
  expect(hashName(encodeUtf8(name))).toBe(hash);
});
