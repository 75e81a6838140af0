import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Compiles every `src/kernels/<name>.as.ts` (AssemblyScript) to `src/kernels/generated/<name>.ts`, which exports
 * the module's bytes as base64. Unchanged sources are not compiled again.
 */

const root = new URL("..", import.meta.url).pathname;
const kernels = `${root}src/kernels`;
const FLAGS = ["-O3", "--noAssert", "--runtime", "stub", "--enable", "simd", "--initialMemory", "1"];

export async function buildKernels(): Promise<void> {
  mkdirSync(`${kernels}/generated`, { recursive: true });
  for (const file of readdirSync(kernels)) {
    if (file.endsWith(".as.ts")) buildKernel(file.slice(0, -".as.ts".length));
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

function buildKernel(name: string): void {
  const source = `${kernels}/${name}.as.ts`;
  const output = `${kernels}/generated/${name}.ts`;
  const stamp = createHash("sha256").update(readFileSync(source)).update(FLAGS.join(" ")).digest("hex").slice(0, 16);
  if (existsSync(output) && readFileSync(output, "utf8").includes(stamp)) return;
  const folder = mkdtempSync(join(tmpdir(), "tare-kernel-"));
  try {
    const wasm = join(folder, "kernel.wasm");
    execFileSync(
      process.execPath,
      [`${root}node_modules/assemblyscript/bin/asc.js`, source, ...FLAGS, "--outFile", wasm],
      {
        cwd: root,
        stdio: "inherit",
      },
    );
    writeFileSync(output, moduleText(`${name}.as.ts`, stamp, readFileSync(wasm)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
