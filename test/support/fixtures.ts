import { readdirSync, readFileSync } from "node:fs";
import type { Bytes } from "../../src/base/bytes.ts";
import { decodeHex } from "../../src/base/text.ts";

const root = new URL("../fixtures/", import.meta.url).pathname;

/** The bytes of test/fixtures/<format>/<name>.hex; lines that begin with # are comments. */
export function loadFixture(format: string, name: string): Bytes {
  const text = readFileSync(`${root}${format}/${name}.hex`, "utf8");
  const digits = text.replace(/^#.*$/gm, "").replace(/\s+/g, "");
  const bytes = decodeHex(digits);
  if (bytes === undefined) throw new Error(`${format}/${name}.hex is not hex`);
  return bytes;
}

/** The files beside a fixture of several files, from test/fixtures/<format>/<name>/<file>.hex, by file name. */
export function loadSiblings(format: string, name: string): Map<string, Bytes> {
  const files = fixtureNames(`${format}/${name}`);
  return new Map(files.map((file) => [file, loadFixture(`${format}/${name}`, file)]));
}

/** Names of all fixtures of a format, without the extension. */
export function fixtureNames(format: string): string[] {
  return readdirSync(`${root}${format}`)
    .filter((file) => file.endsWith(".hex"))
    .map((file) => file.slice(0, -".hex".length))
    .sort();
}
