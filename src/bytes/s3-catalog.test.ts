import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { S3_ERRORS } from "./s3-catalog.ts";

test("S3_ERRORS lists exactly the codes that are thrown", () => {
  const root = fileURLToPath(new URL("./", import.meta.url));
  const names = readdirSync(root).filter((name) => /^s3.*\.ts$/.test(name) && !/\.test\.ts$|catalog/.test(name));
  const text = names.map((name) => readFileSync(join(root, name), "utf8")).join("\n");
  const thrown = new Set([...text.matchAll(/"([a-z]+\/s3\.[a-z.-]+)"/g)].map((match) => match[1] ?? ""));
  expect(Object.keys(S3_ERRORS).sort()).toEqual([...thrown].sort());
});

test("S3_ERRORS speaks in whole sentences", () => {
  for (const { what, why, fix } of Object.values(S3_ERRORS)) {
    for (const sentence of [what, why, fix]) expect(sentence).toMatch(/^[A-Z].*\.$/);
  }
});
