import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type Browser, chromium } from "playwright-core";
import { startStatic } from "../../test/viewer/chromium.ts";
import type { Outcome } from "../outcome.ts";

/**
 * A page, and a worker that it starts, bundled by the bundlers that people use, without configuration, and run by
 * Chromium. Both open a model by its address, check it, convert it and read a tensor of the result.
 */

/** What page and worker do: the same work, told in one line. */
const WORK = `
import { convert, memory, openModel, verify } from "tare";

export async function work(address) {
  const { ok, weights } = await verify(address + "model.aero");
  const out = memory();
  await convert(address + "model.safetensors", out, { to: "gguf" });
  const model = await openModel(out.bytes);
  const [tensor] = model.tensors;
  const values = await tensor.toFloat32();
  await model.close();
  return JSON.stringify([ok, weights, out.bytes.byteLength, tensor.name, values.length]);
}
`;

const PAGE = `
import { loadEmbedder } from "tare/web";
import { work } from "./work.js";

const address = location.hash.slice(1);
globalThis.inPage = await work(address).catch(String);
globalThis.inWorker = await new Promise((resolve) => {
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  worker.onerror = ({ message }) => resolve(message);
  worker.onmessage = ({ data }) => resolve(data);
  worker.postMessage(address);
});
globalThis.embeds = async () => {
  const embedder = await loadEmbedder(address + "minilm/model.fp16.safetensors");
  const [vector] = await embedder.embed(["a small cat"]);
  await embedder.close();
  return vector.length;
};
globalThis.isDone = true;
`;

const WORKER = `
import { work } from "./work.js";

onmessage = async ({ data }) => postMessage(await work(data).catch(String));
`;

/** A bundler: the words of its command, and the script of the page that it makes. */
interface Bundler {
  readonly name: string;
  readonly args: (out: string) => readonly string[];
  /** Where the bundler makes no page: its script. */
  readonly script?: string;
  /** It bundles workers that a package starts, so that embedding has its own. */
  readonly bundlesWorkers: boolean;
}

export const BUNDLERS: readonly Bundler[] = [
  {
    name: "esbuild",
    args: (out) =>
      ["esbuild@0.28", "page.js", "worker.js", "--bundle", "--format=esm", "--minify", "--splitting"].concat(
        `--outdir=${out}`,
      ),
    script: "page.js",
    bundlesWorkers: false,
  },
  {
    name: "rollup",
    args: (out) =>
      ["-p", "rollup@4", "-p", "@rollup/plugin-node-resolve@16", "rollup", "page.js", "worker.js"].concat([
        "-p",
        "node-resolve",
        "-d",
        out,
      ]),
    script: "page.js",
    bundlesWorkers: false,
  },
  { name: "vite", args: (out) => ["vite@8", "build", "--outDir", out], bundlesWorkers: true },
  {
    name: "webpack",
    args: (out) =>
      ["-p", "webpack@5", "-p", "webpack-cli@6", "webpack", "./page.js", "--mode", "production", "-o", out].concat([
        "--target",
        "web",
      ]),
    script: "main.js",
    bundlesWorkers: true,
  },
];

const HTML = (script: string): string => `<!doctype html><script type="module" src="${script}"></script>`;

/** Writes page and worker into a project. */
export function writePrograms(project: string): void {
  writeFileSync(join(project, "work.js"), WORK);
  writeFileSync(join(project, "page.js"), PAGE);
  writeFileSync(join(project, "worker.js"), WORKER);
  writeFileSync(join(project, "index.html"), HTML("./page.js"));
}

/** Bundles the page in an installed project; the folder of the result, undefined where that fails. */
export function bundle(outcome: Outcome, project: string, { name, args, script }: Bundler): string | undefined {
  const out = join(project, `out-${name}`);
  const { status, stdout, stderr } = spawnSync("npx", ["--yes", ...args(out)], { cwd: project, encoding: "utf8" });
  outcome.check(`${name}, without configuration`, status === 0 ? [] : [(stdout + stderr).slice(-400)]);
  if (status !== 0) return undefined;
  if (script !== undefined) writeFileSync(join(out, "index.html"), HTML(`./${script}`));
  const scripts = readdirSync(out, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".js"));
  const bytes = scripts.reduce((sum, file) => sum + gzipSync(readFileSync(join(out, file))).byteLength, 0);
  outcome.note(`${name}: ${scripts.length} scripts, ${bytes} bytes of gzip in all`);
  return out;
}

/** Runs bundled pages in Chromium. `files` has the model, and a folder "minilm". */
export async function runPages(
  outcome: Outcome,
  pages: readonly { readonly bundler: Bundler; readonly out: string }[],
  {
    executablePath,
    files,
    expected,
  }: { readonly executablePath: string; readonly files: string; readonly expected: string },
): Promise<void> {
  const browser: Browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    for (const { bundler, out } of pages) {
      const { name, bundlesWorkers } = bundler;
      for (const file of ["model.safetensors", "model.aero", "minilm"])
        cpSync(join(files, file), join(out, file), { recursive: true });
      const server = await startStatic(out);
      try {
        const page = await browser.newPage();
        page.setDefaultTimeout(120_000);
        const errors: string[] = [];
        page.on("pageerror", ({ message }) => errors.push(message));
        await page.goto(`${server.url}#${server.url}`);
        await page.waitForFunction(() => "isDone" in globalThis);
        const found = await page.evaluate(async (embeds) => {
          const { inPage, inWorker, embeds: embed } = globalThis as unknown as Record<string, unknown>;
          const dimension = embeds ? await (embed as () => Promise<number>)().catch(String) : 0;
          return { inPage, inWorker, dimension };
        }, bundlesWorkers);
        outcome.check(`${name}, in a page`, found.inPage === expected ? [] : [`${found.inPage}`]);
        outcome.check(`${name}, in a worker`, found.inWorker === expected ? [] : [`${found.inWorker}`]);
        if (bundlesWorkers) {
          outcome.check(`${name}, embedding`, found.dimension === 384 ? [] : [`${found.dimension}`]);
        }
        outcome.check(`${name}, errors of the page`, errors);
        await page.close();
      } finally {
        server.close();
      }
    }
  } finally {
    await browser.close();
  }
}
