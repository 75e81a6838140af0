import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { BYTES_ERRORS } from "./errors.ts";

/** Files of src/platform/node whose errors are listed here: everything about files and HTTP. */
const NODE_FILES = /^(errors|file-|partial-|spool|directory-|http-|proxy-|private-)/;

function codesIn(folder: string, wanted: (name: string) => boolean): Set<string> {
  const root = fileURLToPath(new URL(folder, import.meta.url));
  const names = readdirSync(root).filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && wanted(name));
  const text = names.map((name) => readFileSync(join(root, name), "utf8")).join("\n");
  return new Set([...text.matchAll(/"((?:source|usage|limit)\/[a-z.-]+)"/g)].map((match) => match[1] ?? ""));
}

test("BYTES_ERRORS lists exactly the codes that are thrown", () => {
  const thrown = new Set([
    ...codesIn("./", (name) => name !== "errors.ts"),
    ...codesIn("../base/", (name) => name === "system-errors.ts"),
    ...codesIn("../platform/node/", (name) => NODE_FILES.test(name)),
  ]);
  expect(Object.keys(BYTES_ERRORS).sort()).toEqual([...thrown].sort());
});

test("BYTES_ERRORS speaks in whole sentences", () => {
  for (const { what, why, fix } of Object.values(BYTES_ERRORS)) {
    for (const sentence of [what, why, fix]) expect(sentence).toMatch(/^[A-Z].*\.$/);
  }
});
