import { mkdirSync, writeFileSync } from "node:fs";
import type { Bytes } from "../../src/base/bytes.ts";
import { hex } from "./aero.ts";
import { type BuiltSet, buildSet, SET_NAME } from "./aeroset.ts";

/** Writes test/fixtures/aeroset; run it with tsx when the builder changes. */
const FOLDER = new URL("../fixtures/aeroset/", import.meta.url);

const SETS: Readonly<Record<string, BuiltSet>> = {
  "local-ids": { ids: "local" },
  "global-ids": { ids: "global", pages: "pages", hashes: ["index", "parts"] },
  "index-hashes": { ids: "global", hashes: ["index"], json: (json) => ({ ...json, format: undefined }) },
};

function lines(bytes: Bytes): string {
  return `${(hex(bytes).match(/.{1,64}/g) ?? []).join("\n")}\n`;
}

for (const [name, options] of Object.entries(SETS)) {
  mkdirSync(new URL(`${name}/`, FOLDER), { recursive: true });
  for (const [file, bytes] of buildSet(options)) {
    writeFileSync(new URL(file === SET_NAME ? `${name}.hex` : `${name}/${file}.hex`, FOLDER), lines(bytes));
  }
}
