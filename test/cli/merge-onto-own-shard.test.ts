import { linkSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { buildGguf, text } from "../builders/gguf.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";
import { floats } from "./small-models.ts";

const NAMES = ["a", "b", "c"];

function model(kind: "gguf" | "safetensors"): Uint8Array<ArrayBuffer> {
  const values = floats(...Array.from({ length: 64 }, (_, i) => i));
  if (kind === "safetensors") {
    return buildSafetensors(NAMES.map((name) => ({ name, dtype: "F32", shape: [64], bytes: values })));
  }
  const data = new Uint8Array(3 * 256);
  for (const [i] of NAMES.entries()) data.set(values, i * 256);
  return buildGguf({
    kvs: [{ key: "general.architecture", type: 8, value: text("llama") }],
    tensors: NAMES.map((name, i) => ({ name, dims: [64], type: 0, offset: i * 256 })),
    data,
  });
}

interface Shards {
  readonly folder: string;
  /** The numbered files. */
  readonly files: readonly string[];
  readonly index: string | undefined;
  bytes(): string;
}

async function shards(kind: "gguf" | "safetensors", file: ReturnType<typeof scratch>): Promise<Shards> {
  const folder = file("set");
  const run = await callTare(["shard", file(`m.${kind}`, model(kind)), "-o", folder, "--max-size", "300"]);
  expect(run).toMatchObject({ code: 0 });
  const names = readdirSync(folder).sort();
  const files = names.filter((name) => /-of-/.test(name)).map((name) => join(folder, name));
  expect(files).toHaveLength(3);
  const index = names.find((name) => name.endsWith(".index.json"));
  const bytes = (): string =>
    readdirSync(folder)
      .sort()
      .map((name) => readFileSync(join(folder, name), "hex"))
      .join();
  return { folder, files, index: index === undefined ? undefined : join(folder, index), bytes };
}

describe.each(["gguf", "safetensors"] as const)("merge of %s shards", (kind) => {
  it.each(["the first", "the second", "the last", "a link to one", "a hard link", "a linked folder", "file://", "./"])(
    "is refused onto its own files: %s",
    async (place) => {
      const file = scratch();
      const { folder, files, index, bytes } = await shards(kind, file);
      const [first = "", second = "", last = ""] = files;
      symlinkSync(second, file(`link.${kind}`));
      linkSync(second, file(`hard.${kind}`));
      symlinkSync(folder, file("other"));
      const output = {
        "the first": first,
        "the second": second,
        "the last": last,
        "a link to one": file(`link.${kind}`),
        "a hard link": file(`hard.${kind}`),
        "a linked folder": join(file("other"), basename(second)),
        "file://": pathToFileURL(second).href,
        "./": `./set/${basename(second)}`,
      }[place] as string;
      const before = bytes();
      for (const input of [index ?? first, folder, join(file("other"), basename(index ?? first))]) {
        const run = await callTare(["merge", input, "-o", output, "--force"], { cwd: dirname(folder) });
        expect(run).toMatchObject({ code: 2, err: expect.stringContaining("usage/own-input") });
        expect(bytes()).toBe(before);
      }
    },
  );

  it("is refused for one file that does not lead to the others", async () => {
    const file = scratch();
    const { files, bytes } = await shards(kind, file);
    const before = bytes();
    for (const input of kind === "gguf" ? files.slice(1) : files) {
      for (const output of [file(`out.${kind}`), files[0] as string]) {
        const run = await callTare(["merge", input, "-o", output, "--force"]);
        expect(run).toMatchObject({ code: 2, err: expect.stringContaining("usage/merge.part") });
      }
    }
    expect(bytes()).toBe(before);
    expect(readdirSync(dirname(file("x")))).not.toContain(`out.${kind}`);
  });
});

it("merge of a SafeTensors set is refused onto its index", async () => {
  const file = scratch();
  const { index = "", bytes } = await shards("safetensors", file);
  const before = bytes();
  expect(await callTare(["merge", index, "-o", index, "--force"])).toMatchObject({ code: 2 });
  expect(bytes()).toBe(before);
});
