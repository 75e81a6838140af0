import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { flagsFor } from "./option-names.ts";

test.each([
  ["Pass the option force", "Pass --force"],
  ['Cannot convert without the option "to"', "Cannot convert without --to"],
  ["the option allowLossy takes it as it is", "--allow-lossy takes it as it is"],
  ["Name it with the option output, or the option maxShardSize", "Name it with -o, or --max-shard-size"],
  ["no such thing here", "no such thing here"],
])("%s", (text, shown) => {
  expect(flagsFor(text)).toBe(shown);
});

test("the command line names its other ways to give a password, and its flag for none", () => {
  const hint = "Pass the option password, or the option encryption: false for a vault without one";
  expect(flagsFor(hint)).toBe(
    "Pass --password-file, or set TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND or TARE_PASSWORD, or --no-encryption for a vault without one",
  );
});

test("no text of the library names a variable that only the command line reads", () => {
  const library = new URL("../../src/", import.meta.url);
  const sources = readdirSync(library, { recursive: true, encoding: "utf8" });
  const named = sources.filter(
    (name) => name.endsWith(".ts") && !name.startsWith("catalog/") && !/test\.ts$/.test(name),
  );
  expect(named.filter((name) => /TARE_(NEW_)?PASSWORD/.test(readFileSync(new URL(name, library), "utf8")))).toEqual([]);
});
