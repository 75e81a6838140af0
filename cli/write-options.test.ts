import { expect, test } from "vitest";
import { formatById } from "../src/formats/registry.ts";
import type { Format } from "../src/model/format.ts";
import { parseFlags } from "./flags.ts";
import { checkOptions, writeExtras } from "./write-options.ts";

const table = {
  "page-hashes": { kind: "optional-size", value: "SIZE", default: 4096, summary: "" },
  force: { kind: "switch", summary: "" },
} as const;

test.each([
  [["a", "--page-hashes"], ["a"], 4096],
  [["--page-hashes", "64KiB", "a"], ["a"], 65536],
  [["--page-hashes", "out.aero"], ["out.aero"], 4096],
  [["--page-hashes=100", "a"], ["a"], 100],
  [["--page-hashes", "--force", "a"], ["a"], 4096],
] as const)("%j takes the next argument only if it is a size", (args, positionals, size) => {
  const parsed = parseFlags(args, table, "convert");
  expect(parsed.positionals).toEqual(positionals);
  expect(parsed.flags["page-hashes"]).toBe(size);
});

test("writeExtras() reads a uuid with and without dashes and refuses others", () => {
  const bytes = Uint8Array.from({ length: 16 }, (_, i) => i * 17);
  expect(writeExtras({ uuid: "00112233445566778899aabbccddeeff" }).uuid).toEqual(bytes);
  expect(writeExtras({ uuid: "00112233-4455-6677-8899-aabbccddeeff" }).uuid).toEqual(bytes);
  const refusal = expect.objectContaining({ code: "usage/write-option" });
  expect(() => writeExtras({ uuid: "0011" })).toThrow(refusal);
  expect(() => writeExtras({ "page-hashes": 0 })).toThrow(refusal);
});

test("checkOptions() refuses what the format would ignore", async () => {
  const gguf = formatById("gguf") as Format;
  await expect(checkOptions(gguf, { name: "x", align: 64 })).resolves.toBeUndefined();
  const refusal = expect.objectContaining({
    code: "usage/write-option",
    message: expect.stringContaining("--tensor-hashes"),
  });
  await expect(checkOptions(gguf, { name: "x", hashes: { tensors: "tensors" } })).rejects.toEqual(refusal);
});
