import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { callTare } from "../cli/run-tare.ts";
import { GUIDES, type GuideFolder, makeGuideFolder, snippetsOf } from "../support/guides.ts";

/** Every TypeScript snippet of README and docs compiles under strict settings, and those of the guides run in order. */

const root = new URL("../..", import.meta.url).pathname;

const pages = [
  "README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md") && name !== "api.md")
    .map((name) => `docs/${name}`),
];
const snippets = pages.flatMap(snippetsOf);

/** Inside the package, so that its name resolves as it does for users. */
const place = mkdtempSync(join(root, ".readme-example-"));
const work = mkdtempSync(join(tmpdir(), "tare-snippets-"));
let guides: GuideFolder;

beforeAll(async () => {
  guides = await makeGuideFolder(work, async (args, env) => {
    const { code, err } = await callTare([...args], { cwd: work, env });
    expect(code, err).toBe(0);
  });
});
afterAll(async () => {
  await guides?.close();
  rmSync(place, { recursive: true, force: true });
  rmSync(work, { recursive: true, force: true });
});

const STRICT = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  target: "es2022",
  lib: ["es2022", "dom", "dom.iterable"],
  types: ["node"],
  rootDir: ".",
};

const nameOf = (i: number): string => `snippet${i}`;

describe("snippets of README and docs", () => {
  test.each([
    ["nodenext", { module: "nodenext" }],
    ["bundler", { module: "esnext", moduleResolution: "bundler" }],
  ])("compile under strict settings: %s", async (name, settings) => {
    expect(snippets.length).toBeGreaterThan(10);
    for (const [i, { code }] of snippets.entries()) writeFileSync(join(place, `${nameOf(i)}.ts`), guides.local(code));
    const options = { ...STRICT, ...settings, ...(name === "bundler" ? { noEmit: true } : { outDir: "out" }) };
    writeFileSync(join(place, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    const { stdout } = await promisify(execFile)(process.execPath, [compiler, "-p", place, "--pretty", "false"]).catch(
      (error: unknown) => error as { readonly stdout: string },
    );
    const faults = stdout.replace(/snippet(\d+)\.ts/g, (_, i: string) => `${snippets[Number(i)]?.file}, snippet ${i}`);
    expect(faults).toBe("");
  });

  test.each(GUIDES)("run in order: docs/guides/%s.md", async (guide) => {
    const own = snippets.flatMap(({ file }, i) => (file === `docs/guides/${guide}.md` ? [i] : []));
    expect(own.length).toBeGreaterThan(1);
    for (const i of own) {
      const { stderr } = await promisify(execFile)(process.execPath, [join(place, "out", `${nameOf(i)}.js`)], {
        cwd: work,
        env: { ...process.env, TARE_CACHE: join(work, "cache"), XDG_STATE_HOME: join(work, "state") },
      });
      expect(stderr.replace(/^(writing|quantizing|verifying) .*\n/gm, "")).toBe("");
    }
  });
});
