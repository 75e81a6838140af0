import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Compiles every `src/kernels/<name>.as.ts` (AssemblyScript) to `src/kernels/generated/<name>.ts`, which exports
 * the module's bytes as base64; parts of a large one stand in the folder of its name. Unchanged sources are not compiled
 * again.
 */

const root = new URL("..", import.meta.url).pathname;
const kernels = `${root}src/kernels`;
const FLAGS = ["-O3", "--noAssert", "--runtime", "stub", "--enable", "simd", "--initialMemory", "1"];
const IMPORTED = ["--importMemory", "--noExportMemory"];
/** A module says whether its memory is shared, so there is one for either; 65536 pages are all that 32 bits reach. */
const SHARED = [...IMPORTED, "--enable", "threads", "--sharedMemory", "--maximumMemory", "65536"];
const RELAXED = ["--enable", "relaxed-simd"];
/** Kernels that are compiled in several ways: output name and further flags of each. */
const VARIANTS: Readonly<Record<string, readonly (readonly [name: string, flags: readonly string[]])[]>> = {
  encoder: [
    ["encoder", IMPORTED],
    ["encoder-relaxed", [...IMPORTED, ...RELAXED]],
    ["encoder-shared", SHARED],
    ["encoder-relaxed-shared", [...SHARED, ...RELAXED]],
  ],
  gf256: [
    ["gf256", []],
    ["gf256-relaxed", RELAXED],
  ],
  polyval: [
    ["polyval", []],
    ["polyval-relaxed", RELAXED],
  ],
  // As fast, and a sixth shorter.
  "vault-entries": [["vault-entries", ["--shrinkLevel", "1"]]],
};

export async function buildKernels(): Promise<void> {
  mkdirSync(`${kernels}/generated`, { recursive: true });
  for (const file of readdirSync(kernels)) {
    if (!file.endsWith(".as.ts")) continue;
    const source = file.slice(0, -".as.ts".length);
    for (const [name, flags] of VARIANTS[source] ?? [[source, []]]) buildKernel(source, name, [...FLAGS, ...flags]);
  }
  embedZstd();
}

/** libzstd comes compiled: its bytes are embedded like our own kernels, so that no loader of the package is needed. */
function embedZstd(): void {
  const wasm = readFileSync(`${root}node_modules/@foxglove/wasm-zstd/dist/wasm-zstd.wasm`);
  const stamp = createHash("sha256").update(wasm).digest("hex").slice(0, 16);
  const output = `${kernels}/generated/zstd.ts`;
  if (existsSync(output) && readFileSync(output, "utf8").includes(stamp)) return;
  writeFileSync(output, moduleText("@foxglove/wasm-zstd", stamp, wasm));
}

function moduleText(from: string, stamp: string, wasm: Buffer): string {
  return `// Built from ${from} (${stamp}); do not edit.\nexport const WASM =\n  "${wasm.toString("base64")}";\n`;
}

/** The source and, where there is a folder of its name, all that stands in it. */
function sourcesOf(name: string): string[] {
  const folder = `${kernels}/${name}`;
  const parts = existsSync(folder) ? readdirSync(folder).map((part) => `${folder}/${part}`) : [];
  return [`${kernels}/${name}.as.ts`, ...parts.sort()];
}

function buildKernel(source: string, name: string, flags: readonly string[]): void {
  const sources = sourcesOf(source);
  const output = `${kernels}/generated/${name}.ts`;
  const hash = createHash("sha256");
  for (const path of sources) hash.update(readFileSync(path));
  const stamp = hash.update(flags.join(" ")).digest("hex").slice(0, 16);
  if (existsSync(output) && readFileSync(output, "utf8").includes(stamp)) return;
  const folder = mkdtempSync(join(tmpdir(), "tare-kernel-"));
  try {
    const wasm = join(folder, "kernel.wasm");
    execFileSync(
      process.execPath,
      [`${root}node_modules/assemblyscript/bin/asc.js`, sources[0] as string, ...flags, "--outFile", wasm],
      {
        cwd: root,
        stdio: "inherit",
      },
    );
    writeFileSync(output, moduleText(`${source}.as.ts`, stamp, readFileSync(wasm)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
