import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { unnamedTypes } from "./support/declarations.ts";

const root = new URL("..", import.meta.url).pathname;

/** What a program with strict settings writes; the lines that must not compile say so. */
const PROGRAM = `
import * as tare from "tare";
import * as node from "tare/node";
import * as bytes from "tare/bytes";
import { format, open as openGguf } from "tare/formats/gguf";
import { open as openVault } from "tare/formats/aerovault";
import { portableEngine } from "tare/worker";
import { loadEmbedder } from "tare/web";
import type { EmbedFileResult, EmbedResult, FormatInfo, Loader, MemoryOutput, Model, SearchResult, SimilarityResult, Source } from "tare";
const is = <T>(_value: T): void => {};
declare const vault2: tare.Vault; declare const file: File, handle: FileSystemFileHandle, folder: FileSystemDirectoryHandle, data: Uint8Array, signal: AbortSignal;
is<Promise<Model>>(tare.openModel(new URL("https://x/y"), { signal, timeout: "30s", memory: 1e9, formats: [format] }));
is<Promise<Model>>(tare.openModel(handle)); is<Promise<Model>>(tare.openModel(folder)); is<Promise<Model>>(tare.openModel(data)); is<Promise<Model>>(openGguf(file));
is<Promise<EmbedResult>>(tare.embed(file, ["a"])); is<Promise<SimilarityResult>>(tare.embed(file, ["a", "b"], { similarity: true }));
is<Promise<SearchResult>>(tare.embed(file, "q", { search: ["a", "b"], top: 1 })); is<Promise<EmbedFileResult>>(node.embed("m", "a", { as: "npy", output: "v" }));
is<readonly FormatInfo[]>(tare.formats); is<MemoryOutput>(tare.memory({ maxBytes: "1GiB" })); is<tare.Engine>(portableEngine());
tare.createModel([{ name: "w", dtype: "F32", shape: [2], data: new Float32Array(2) }], { metadata: { license: "MIT" } });
export async function closed(): Promise<void> {
  await using model = await node.openModel("m", { offline: true, env: {} }); await using embedder = await node.loadEmbedder("m", { threads: 1 });
  await using loader = tare.createLoader(() => tare.openModel(file)); await using source = await bytes.httpSource("https://x/y");
  await using opened = await node.fileSource("m"); await using stored = vault2.source("m"); await using tensor = model.tensor("w").source();
  await using other = await tare.open(file); await using web = await loadEmbedder("x"); await using vault = await openVault(file);
  is<Loader>(loader); is<Source>(source); is<string>(opened.label + stored.label + tensor.label); is<string>(model.format + other.kind + vault.kind); is<number>(embedder.dimension + web.dimension);
  is<Record<string, unknown>>(model.metadata.toJSON());
}
// @ts-expect-error no such option
tare.openModel(file, { frobnicate: true });
// @ts-expect-error no such type
tare.createModel([{ name: "w", dtype: "F33", shape: [2], data }]);
// @ts-expect-error results cannot be written to
tare.embed(file, "a").then((result) => { result.model = "x"; });
`;

const SETTINGS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  target: "es2022",
  noEmit: true,
};

/** What a program on a server writes, without the types of a page. */
const SERVER = `
import * as tare from "tare"; import * as node from "tare/node"; import * as vaults from "tare/vault"; import * as bytes from "tare/bytes"; import * as workers from "tare/worker";
export const all = [tare, node, vaults, bytes, workers];
`;

test.each([
  ["nodenext, without those of a page", { module: "nodenext", lib: ["es2022"], types: ["node"] }, SERVER],
  ["nodenext", { module: "nodenext", lib: ["es2022", "dom", "dom.iterable"], types: ["node"] }, PROGRAM],
  ["bundler", { module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom"], types: ["node"] }, PROGRAM],
])("the declarations compile under strict settings of %s", (_name, options, program) => {
  const folder = mkdtempSync(join(tmpdir(), "tare-types-"));
  try {
    mkdirSync(join(folder, "node_modules/@types"), { recursive: true });
    symlinkSync(root, join(folder, "node_modules/tare"));
    symlinkSync(join(root, "node_modules/@types/node"), join(folder, "node_modules/@types/node"));
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    writeFileSync(join(folder, "program.ts"), program);
    const compilerOptions = { ...SETTINGS, ...options };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    let said = "";
    try {
      execFileSync(process.execPath, [tsc, "-p", folder, "--pretty", "false"], { encoding: "utf8" });
    } catch (error) {
      said = String((error as { stdout?: unknown }).stdout);
    }
    expect(said).toBe("");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

const LIBRARIES = readdirSync(join(root, "dist/src/formats"))
  .map((id) => `formats/${id}/library`)
  .filter((name) => existsSync(join(root, "dist/src", `${name}.d.ts`)));

test.each([
  "index",
  "platform/node/index",
  "platform/web/index",
  "platform/node/vault/library",
  "api/vault/index",
  "bytes/index",
  "workers/index",
  ...LIBRARIES,
])("whatever type is in a signature of %s can be imported from there", (entry) => {
  expect(unnamedTypes(join(root, "dist/src", `${entry}.d.ts`))).toEqual([]);
});

test("the walk through declarations finds a type that an entry keeps to itself", () => {
  const folder = mkdtempSync(join(tmpdir(), "tare-types-"));
  try {
    writeFileSync(
      join(folder, "inner.d.ts"),
      "export interface Deep {}\nexport type Hidden = readonly Deep[];\nexport interface Shown { a: Hidden }\n",
    );
    const index =
      'import type { Shown } from "./inner.ts";\nexport type { Shown } from "./inner.ts";\nexport declare const f: (a: Shown) => import("./inner.ts").Deep;\n';
    writeFileSync(join(folder, "index.d.ts"), index);
    const found = unnamedTypes(join(folder, "index.d.ts")).map((text) => text.split(" ")[0]);
    expect(found.sort()).toEqual(["Deep", "Hidden"]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
