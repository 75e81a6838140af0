import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { FORMAT_IDS } from "./node-groups.ts";

/**
 * Checks the public API: tools/public-names.txt pins the names that each entry exports (`--write` after an intended
 * change), and publint checks that package.json points at files that exist.
 */

const root = join(new URL(".", import.meta.url).pathname, "..");
const pinned = join(root, "tools/public-names.txt");
const entries = {
  ".": ["dist/node/index.js", "dist/web/index.js"],
  "./node": ["dist/node/node.js"],
  "./web": ["dist/web/web.js"],
  "./worker": ["dist/node/worker.js", "dist/web/worker.js"],
  "./vault": ["dist/node/vault.js", "dist/web/vault.js"],
  "./bytes": ["dist/node/bytes.js", "dist/web/bytes.js"],
  ...Object.fromEntries(
    FORMAT_IDS.map((id) => [`./formats/${id}`, [`dist/node/formats/${id}.js`, `dist/web/formats/${id}.js`]]),
  ),
};

const found: Record<string, string[]> = {};
for (const [entry, files] of Object.entries(entries)) {
  for (const file of files) {
    const module = (await import(join(root, file))) as Record<string, unknown>;
    const names = Object.keys(module).sort();
    found[entry] ??= names;
    if (String(names) !== String(found[entry])) throw new Error(`${file} has other names than ${files[0]}`);
  }
}
// One name per line, so that a diff shows exactly what the public API gains or loses.
const text = `${Object.entries(found)
  .map(([entry, names]) => [entry, ...names.map((name) => `  ${name}`)].join("\n"))
  .join("\n")}\n`;
if (process.argv.includes("--write")) writeFileSync(pinned, text);
if (readFileSync(pinned, "utf8") !== text) {
  console.error("The exported names differ from tools/public-names.txt. If that is wanted: npm run docs");
  process.exit(1);
}

const { messages, pkg } = await publint({ pkgDir: root, strict: true, pack: false });
const serious = messages.filter((message) => message.type !== "suggestion");
for (const message of serious) console.error(formatMessage(message, pkg));
if (serious.length > 0) process.exit(1);
console.log("exports hold");
