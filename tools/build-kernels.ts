import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Compiles every `src/kernels/<name>.as.ts` (AssemblyScript) to `src/kernels/generated/<name>.ts`, which exports
 * the module's bytes as base64. Parts of a large kernel are in the folder with its name. Unchanged sources are not
 * compiled again.
 */

const root = new URL("..", import.meta.url).pathname;
const kernels = `${root}src/kernels`;
const FLAGS = ["-O3", "--noAssert", "--runtime", "stub", "--enable", "simd", "--initialMemory", "1"];
const IMPORTED = ["--importMemory", "--noExportMemory"];
/** A module declares whether its memory is shared, so there is one for each. 65536 pages are the 32-bit maximum. */
const SHARED = [...IMPORTED, "--enable", "threads", "--sharedMemory", "--maximumMemory", "65536"];
const RELAXED = ["--enable", "relaxed-simd"];
/** Kernels that are compiled in several ways: output name and additional flags of each. */
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
  // Just as fast, and a sixth shorter.
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

/** True if the module was made of the same sources, in the same form. */
function isCurrent(output: string, stamp: string): boolean {
  if (!existsSync(output)) return false;
  const text = readFileSync(output, "utf8");
  return text.includes(stamp) && text.includes(DECLARATION);
}

/** The compiled libzstd that was looked at: what runs must be this one, whatever npm installed. */
const ZSTD = {
  package: "@foxglove/wasm-zstd",
  version: "1.0.1",
  file: "dist/wasm-zstd.wasm",
  sha256: "13704a218030bf6b1626c2bf24545290a9bce153784691d743c8c8c6ebf18f0d",
} as const;

/** libzstd comes compiled. Its bytes are embedded like our own kernels, so that the package's loader is not needed. */
function embedZstd(): void {
  const path = `${root}node_modules/${ZSTD.package}/${ZSTD.file}`;
  const wasm = readFileSync(path);
  const found = createHash("sha256").update(wasm).digest("hex");
  const origin = `${ZSTD.package} ${ZSTD.version}, ${ZSTD.file}`;
  if (found !== ZSTD.sha256) {
    throw new Error(`${path} is not the libzstd of ${origin}: its SHA-256 must be ${ZSTD.sha256}, found ${found}`);
  }
  process.stdout.write(`\n  libzstd: ${origin}, SHA-256 ${found} as recorded\n`);
  const stamp = found.slice(0, 16);
  const output = `${kernels}/generated/zstd.ts`;
  if (isCurrent(output, stamp)) return;
  writeFileSync(output, moduleText("@foxglove/wasm-zstd", stamp, wasm));
}

/** With a type, or the package's types would contain the bytes again. */
const DECLARATION = "export const WASM: string =";

function moduleText(from: string, stamp: string, wasm: Buffer): string {
  return `// Built from ${from} (${stamp}); do not edit.\n${DECLARATION}\n  "${wasm.toString("base64")}";\n`;
}

/** The source, and all files in the folder with its name, if there is one. */
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
  if (isCurrent(output, stamp)) return;
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
