import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

/**
 * The public surface: the names that each entry exports are pinned in tools/public-names.json (`--write` after a wanted
 * change), and publint checks that package.json points at files that exist.
 */

const root = join(new URL(".", import.meta.url).pathname, "..");
const pinned = join(root, "tools/public-names.json");
const entries = {
  ".": "dist/src/index.js",
  "./node": "dist/src/platform/node/index.js",
  "./worker": "dist/src/workers/index.js",
};

const found: Record<string, string[]> = {};
for (const [entry, file] of Object.entries(entries)) {
  const module = (await import(join(root, file))) as Record<string, unknown>;
  found[entry] = Object.keys(module).sort();
}
const text = `${JSON.stringify(found, null, 2)}\n`;
if (process.argv.includes("--write")) writeFileSync(pinned, text);
if (readFileSync(pinned, "utf8") !== text) {
  console.error("The exported names differ from tools/public-names.json. If that is wanted: npm run docs");
  process.exit(1);
}

const { messages, pkg } = await publint({ pkgDir: root, strict: true, pack: false });
const serious = messages.filter((message) => message.type !== "suggestion");
for (const message of serious) console.error(formatMessage(message, pkg));
if (serious.length > 0) process.exit(1);
console.log("exports hold");
