import { expect, test } from "vitest";
import { parseFlags } from "./flags.ts";

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
