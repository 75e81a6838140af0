import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { smallSafetensors } from "../cli/small-models.ts";

/**
 * Adding a format touches its folder and one line of the registry, and nothing else: a copy of the tree gets a toy
 * format in that way, and everything that lists, groups or loads formats must find it there.
 */

const root = new URL("../../", import.meta.url).pathname;
const copy = mkdtempSync(join(tmpdir(), "tare-toy-"));
const bin = join(copy, "dist/bin");

beforeAll(async () => {
  for (const name of ["src", "cli", "viewer", "tools", "package.json"])
    cpSync(join(root, name), join(copy, name), { recursive: true, filter: (path) => !path.endsWith(".test.ts") });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  addToy();
});

afterAll(() => rmSync(copy, { recursive: true, force: true }));

/** The whole change: the folder, its import and its line in the list. */
function addToy(): void {
  const folder = join(copy, "src/formats/toy");
  cpSync(new URL("toy", import.meta.url).pathname, folder, { recursive: true });
  for (const name of readdirSync(folder))
    edit(`src/formats/toy/${name}`, (text) => text.replaceAll("../../../src/", "../../"));
  edit("src/formats/registry.ts", (text) => {
    const list = "export const FORMATS: readonly Format[] = [\n";
    expect(text).toContain(list);
    return `import { toy } from "./toy/index.ts";\n${text.replace(list, `${list}  toy,\n`)}`;
  });
}

function edit(path: string, change: (text: string) => string): void {
  writeFileSync(join(copy, path), change(readFileSync(join(copy, path), "utf8")));
}

/** A tool of the copy, so that it looks at the copy. */
function tool<T>(name: string): Promise<T> {
  return import(/* @vite-ignore */ join(copy, "tools", name)) as Promise<T>;
}

async function tare(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [join(bin, "tare.js"), ...args]);
  return stdout;
}

describe("a format that is a folder and a line of the registry", () => {
  test("keeps the layers", async () => {
    const { checkLayers } = await tool<typeof import("../../tools/check-layers.ts")>("check-layers.ts");
    expect(checkLayers(copy)).toEqual([]);
  });

  test("is opened, inspected, verified and converted by the command line", async () => {
    const { bundleCli } = await tool<typeof import("../../tools/bundle-cli.ts")>("bundle-cli.ts");
    await bundleCli(bin);
    expect(groupOf(bin, "format-toy-")).toHaveLength(1);
    const from = join(copy, "m.safetensors");
    const there = join(copy, "m.toy");
    const back = join(copy, "back.safetensors");
    writeFileSync(from, smallSafetensors());
    await tare("convert", from, there, "--to", "toy", "--verify");
    expect(JSON.parse(await tare("inspect", "--json", there))).toMatchObject({ format: "toy", version: "1" });
    expect(JSON.parse(await tare("verify", "--json", there))).toMatchObject({ ok: true });
    await tare("convert", there, back, "--verify");
    expect(JSON.parse(await tare("diff", "--json", from, back))).toMatchObject({ equal: true });
    const damaged = readFileSync(there);
    damaged.writeUInt32LE(0, damaged.byteLength - 4);
    writeFileSync(there, damaged);
    await expect(tare("verify", there)).rejects.toMatchObject({ code: 4 });
  });

  test("is one file of the library for Node, with an entry of its own", async () => {
    const { bundleNode } = await tool<typeof import("../../tools/bundle-node.ts")>("bundle-node.ts");
    const folder = join(copy, "dist/node");
    await bundleNode(folder);
    expect(groupOf(folder, "format-toy-")).toHaveLength(1);
    expect(readdirSync(join(folder, "formats"))).toContain("toy.js");
  });

  test("is loaded by the viewer when a file asks for it, and its checks when they are asked for", async () => {
    const { bundleViewer } = await tool<typeof import("../../tools/bundle-viewer.ts")>("bundle-viewer.ts");
    const folder = join(copy, "dist/viewer");
    await bundleViewer(folder);
    const [reading, checks] = [groupOf(folder, "toy-"), groupOf(folder, "toy-checks-")];
    expect(reading).toHaveLength(1);
    expect(checks).toHaveLength(1);
    expect(readFileSync(join(folder, reading[0] as string), "utf8")).toContain("toy header");
    expect(readFileSync(join(folder, checks[0] as string), "utf8")).toContain("another one");
  });
});

/** Files of a bundle whose names are those of a group and a hash. */
function groupOf(folder: string, prefix: string): string[] {
  return readdirSync(folder).filter(
    (name) => name.startsWith(prefix) && /^[\w-]{7,8}\.js$/.test(name.slice(prefix.length)),
  );
}
