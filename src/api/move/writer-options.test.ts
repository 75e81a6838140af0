import { expect, test } from "vitest";
import { formatById } from "../../formats/registry.ts";
import type { Format } from "../../model/format.ts";
import { checkWriterOptions, digestOptions } from "./writer-options.ts";

test("digestOptions() reads a uuid with and without dashes and refuses others", () => {
  const bytes = Uint8Array.from({ length: 16 }, (_, i) => i * 17);
  expect(digestOptions({ uuid: "00112233445566778899aabbccddeeff" }).uuid).toEqual(bytes);
  expect(digestOptions({ uuid: "00112233-4455-6677-8899-aabbccddeeff" }).uuid).toEqual(bytes);
  const refusal = expect.objectContaining({ code: "usage/write-option" });
  expect(() => digestOptions({ uuid: "0011" })).toThrow(refusal);
  expect(() => digestOptions({ pageHashes: 0 })).toThrow(refusal);
});

test("checkWriterOptions() refuses what the format would ignore", async () => {
  const gguf = formatById("gguf") as Format;
  await expect(checkWriterOptions(gguf, { name: "x", align: 64 })).resolves.toBeUndefined();
  const refusal = expect.objectContaining({
    code: "usage/write-option",
    message: expect.stringContaining("the option tensorHashes"),
  });
  await expect(checkWriterOptions(gguf, { name: "x", hashes: { tensors: "tensors" } })).rejects.toEqual(refusal);
});
