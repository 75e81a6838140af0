import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exitCodeOfCode } from "../cli/exit-codes.ts";
import { allErrors } from "../src/catalog/index.ts";
import { FORMATS } from "../src/formats/registry.ts";
import { API_ENTRIES, renderApi } from "./api-page.ts";

/**
 * `docs/errors.md`, `docs/limits.md` and `docs/api.md` are printed from the code. Without arguments this fails if they are out of
 * date, if a code is thrown that no catalog describes, if a described code is thrown nowhere, or if a code has an exit
 * code and is never an error. `--write` rewrites the pages.
 */

const root = join(new URL(".", import.meta.url).pathname, "..");
const problems: string[] = [];

/** The source text before a code that is only reported, and before one that is thrown or decides the exit code. */
const REMARK = /severity: "(warning|note)"( as const)?,\s*code: $|tolerated\.warn\(\s*$/;
const FAILURE = /new \w+Error\(\s*$|severity: "error"( as const)?,\s*code: $|tolerated\.fault\(\s*$/;

checkCodes();
checkPage("docs/errors.md", renderErrors());
checkPage("docs/limits.md", await renderLimits());
checkPage("docs/api.md", renderApi(root, API_ENTRIES, generated()));

if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
console.log("generated docs are up to date");

function checkCodes(): void {
  const documented = allErrors();
  const used = new Set<string>();
  const ends = new Set<string>();
  for (const file of sourceFiles()) {
    const text = readFileSync(join(root, file), "utf8");
    for (const match of text.matchAll(
      /"((?:format|limit|integrity|unsupported|source|usage|internal)\/[a-z0-9.-]+)"(?!\s*:\s*\{)/g,
    )) {
      const code = match[1] as string;
      used.add(code);
      const before = text.slice(Math.max(0, match.index - 80), match.index);
      if (!REMARK.test(before)) ends.add(code);
      if (FAILURE.test(before) && documented.get(code)?.severity !== undefined)
        problems.push(`${file}: "${code}" is an error here, but its entry says that it never is`);
      if (!documented.has(code)) problems.push(`${file}: "${code}" is in no catalog`);
    }
  }
  for (const [code, { severity }] of documented) {
    if (used.has(code) && !ends.has(code) && severity === undefined)
      problems.push(`catalog: "${code}" is never an error, and its entry must say so: severity: "warning" or "note"`);
    if (!used.has(code) && !code.startsWith("unsupported/foreign."))
      problems.push(`catalog: "${code}" is used nowhere`);
  }
}

function sourceFiles(): string[] {
  return ["src", "cli", "viewer"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && !name.includes("generated"))
      .map((name) => join(folder, name)),
  );
}

function renderErrors(): string {
  const rows = [...allErrors()].map(([code, { what, why, fix, severity }]) => {
    const exit =
      severity === undefined ? `Exit code ${exitCodeOfCode(code)}.` : `Only ever a ${severity}, without an exit code.`;
    return `### \`${code}\`\n\n${exit} ${what} ${why}\n\n**What to do:** ${fix}\n`;
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
