import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

/** What others made and the package contains, with its licences. */

const root = new URL("..", import.meta.url).pathname;

/** A part of the built files. */
interface BundledPart {
  readonly name: string;
  /** The npm package that it comes from, whose version and licence count; absent if it comes inside of another one. */
  readonly from?: string;
  /** SPDX identifier. */
  readonly license: string;
  /** The folders of the built package that contain it. */
  readonly into: readonly string[];
  /** Where the text is, if not in the package. */
  readonly text?: string;
  readonly note?: string;
}

const KERNELS = ["dist/node", "dist/web", "dist/bin", "dist/viewer"];

export const BUNDLED: readonly BundledPart[] = [
  { name: "picocolors", from: "picocolors", license: "ISC", into: ["dist/bin"] },
  { name: "preact", from: "preact", license: "MIT", into: ["dist/viewer"] },
  {
    name: "@foxglove/wasm-zstd",
    from: "@foxglove/wasm-zstd",
    license: "MIT",
    into: KERNELS,
    note: "libzstd, compiled to WebAssembly",
  },
  { name: "zstd", license: "BSD-3-Clause", into: KERNELS, text: "zstd.txt", note: "inside of @foxglove/wasm-zstd" },
  {
    name: "emscripten",
    license: "MIT",
    into: KERNELS,
    text: "emscripten.txt",
    note: "its runtime, inside of @foxglove/wasm-zstd",
  },
  {
    name: "musl",
    license: "MIT",
    into: KERNELS,
    text: "musl.txt",
    note: "its C library, inside of @foxglove/wasm-zstd",
  },
  {
    name: "assemblyscript",
    from: "assemblyscript",
    license: "Apache-2.0",
    into: KERNELS,
    note: "its standard library, compiled into the kernels",
  },
];

/** Refuses a bundle with modules of a package that is not listed: its licence would be missing. */
export function checkBundled(
  output: readonly { readonly type: string; readonly moduleIds?: readonly string[] }[],
): void {
  const known = new Set(BUNDLED.map(({ from }) => from));
  for (const id of output.flatMap(({ moduleIds = [] }) => moduleIds)) {
    const name = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
    if (name === undefined || known.has(name)) continue;
    throw new Error(`${name} is bundled, and tools/third-party.ts does not list it`);
  }
}

/** The text of a licence, with the notice that comes with it. */
function licenceText({ name, from, text }: BundledPart): string {
  if (text !== undefined) return readFileSync(`${root}tools/licences/${text}`, "utf8").trim();
  const folder = `${root}node_modules/${from}`;
  const files = existsSync(folder)
    ? readdirSync(folder).filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file))
    : [];
  if (files.length === 0) throw new Error(`${name} has no text of its licence`);
  return files
    .sort()
    .map((file) => readFileSync(`${folder}/${file}`, "utf8").trim())
    .join("\n\n");
}

/** Writes the licences of everything that is bundled beside it. */
export function writeLicences(directory: string): void {
  const parts = BUNDLED.map((part) => {
    const { name, license, into, note } = part;
    const what = note === undefined ? "" : `: ${note}`;
    return `${"=".repeat(80)}\n${name}${what}\nLicence: ${license}. In: ${into.join(", ")}\n\n${licenceText(part)}\n`;
  });
  const head = "The built files of tare contain the following works of others. tare itself: see LICENSE.\n\n";
  writeFileSync(`${directory}/THIRD-PARTY-LICENSES.txt`, head + parts.join("\n"));
}
