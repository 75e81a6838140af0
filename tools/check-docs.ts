import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exitCodeOfCode } from "../cli/exit-codes.ts";
import { allErrors } from "../src/catalog/index.ts";
import { FORMATS } from "../src/formats/registry.ts";

/**
 * `docs/errors.md` and `docs/limits.md` are printed from the code. Without arguments this fails when they are out of
 * date, or when a code is thrown that no catalog describes, or described and thrown nowhere; `--write` rewrites them.
 */

const root = join(new URL(".", import.meta.url).pathname, "..");
const problems: string[] = [];

checkCodes();
checkPage("docs/errors.md", renderErrors());
checkPage("docs/limits.md", await renderLimits());

if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
console.log("generated docs are up to date");

function checkCodes(): void {
  const documented = allErrors();
  const used = new Set<string>();
  for (const file of sourceFiles()) {
    const text = readFileSync(join(root, file), "utf8");
    for (const match of text.matchAll(
      /"((?:format|limit|integrity|unsupported|source|usage|internal)\/[a-z0-9.-]+)"(?!\s*:\s*\{)/g,
    )) {
      const code = match[1] as string;
      used.add(code);
      if (!documented.has(code)) problems.push(`${file}: "${code}" is in no catalog`);
    }
  }
  for (const code of documented.keys()) {
    if (!used.has(code) && !code.startsWith("unsupported/foreign."))
      problems.push(`catalog: "${code}" is used nowhere`);
  }
}

function sourceFiles(): string[] {
  return ["src", "cli"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && !name.includes("generated"))
      .map((name) => join(folder, name)),
  );
}

function renderErrors(): string {
  const rows = [...allErrors()].map(([code, { what, why, fix }]) => {
    return `### \`${code}\`\n\nExit code ${exitCodeOfCode(code)}. ${what} ${why}\n\n**What to do:** ${fix}\n`;
  });
  const intro =
    "Every error and finding has a stable code. `tare explain CODE` prints its entry; with `--json` errors carry it as `code`.";
  return `# Errors\n\n${generated()}\n\n${intro}\n\n${rows.join("\n")}`;
}

async function renderLimits(): Promise<string> {
  const tables = FORMATS.map(async (format) => {
    const rows = Object.entries((await format.read()).limits).map(([name, entry]) => {
      return `| \`${format.id}.${name}\` | ${entry.default} ${entry.unit} | ${entry.provenance} | ${entry.reason} |`;
    });
    return `## ${format.name}\n\n| limit | default | from | why |\n|---|---|---|---|\n${rows.join("\n")}\n`;
  });
  const intro =
    'What a file may declare before it is refused with a `limit/…` error (exit 7). Raise or lower any of them with `--limits FILE`, a JSON file such as `{ "gguf": { "headerBytes": 1000000000 } }`, or with `open(source, { limits })`.';
  return `# Limits\n\n${generated()}\n\n${intro}\n\n${(await Promise.all(tables)).join("\n")}`;
}

function generated(): string {
  return "<!-- Printed from the code by `npm run docs`; do not edit. -->";
}

function checkPage(path: string, text: string): void {
  if (process.argv.includes("--write")) {
    writeFileSync(join(root, path), text);
    return;
  }
  let current = "";
  try {
    current = readFileSync(join(root, path), "utf8");
  } catch {
    // reported below
  }
  if (current !== text) problems.push(`${path} is out of date: run npm run docs`);
}
