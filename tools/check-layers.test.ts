import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkLayers } from "./check-layers.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "tare-layers-"));
  for (const folder of ["src/model", "cli", "viewer"]) mkdirSync(join(root, folder), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true }));

function check(text: string): string[] {
  writeFileSync(join(root, "src/model/a.ts"), `${text}\n`);
  return checkLayers(root);
}

test.each([
  'const b = await import("./b.ts");',
  'this.b ??= import("./b.ts");',
  'const b = c ? import("./b.ts") : d;',
  'const b = c ? d : import("./b.ts");',
  'return import("./b.ts");',
  'import("./b.ts").catch(() => undefined);',
  'import("./b.ts")\n  .then(use);',
  'void import(\n  "./b.ts"\n);',
  'const b = import("./b.json", { with: { type: "json" } });',
])("finds the import() that is no entry in %j", (text) => {
  expect(check(text)).toEqual([expect.stringContaining("which is no entry")]);
});

test.each([
  'type B = typeof import("./b.ts");',
  'let b: import("./b.ts").B;',
  'let b: Promise<import("./b.ts").B[]>;',
  '// import("./b.ts")',
])("lets the type in %j pass", (text) => {
  expect(check(text)).toEqual([]);
});

test("fails if a folder cannot be read", () => {
  rmSync(join(root, "viewer"), { recursive: true });
  expect(() => check("")).toThrow("ENOENT");
});
