import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { safetensors } from "../../src/formats/safetensors/index.ts";
import { convert as convertPortable } from "../../src/index.ts";
import { convert, openModel } from "../../src/platform/node/index.ts";
import { callTare } from "../cli/run-tare.ts";

let folder: string;
let out: string;
let count = 0;
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-library-"));
  const made = await callTare(["demo", "demo"], { cwd: folder });
  expect(made.code).toBe(0);
  expect((await callTare(["convert", "demo/demo.safetensors", "m.gguf"], { cwd: folder })).code).toBe(0);
});
beforeEach(() => {
  out = at(`out-${count++}`);
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("convert()", () => {
  test("writes the file of the command, and returns its document", async () => {
    const run = await callTare(["convert", at("m.gguf"), `${out}-a.safetensors`, "--json"], { cwd: folder });
    const result = await convert(at("m.gguf"), `${out}-b.safetensors`);
    const document = JSON.parse(run.out.replaceAll("-a.safetensors", "-b.safetensors")) as unknown;
    expect(JSON.parse(JSON.stringify(result))).toEqual(document);
    expect(readFileSync(`${out}-b.safetensors`).equals(readFileSync(`${out}-a.safetensors`))).toBe(true);
  });

  test("takes URLs of files, bytes, Blobs, streams and opened models, which stay open", async () => {
    const bytes = readFileSync(at("m.gguf"));
    await convert(at("m.gguf"), `${out}.aero`, { to: "safetensors" });
    const wanted = readFileSync(`${out}.aero`);
    const model = await openModel(at("m.gguf"));
    const inputs = [
      pathToFileURL(at("m.gguf")),
      new Uint8Array(bytes),
      new Blob([bytes]),
      new Blob([bytes]).stream(),
      model,
    ] as const;
    for (const input of inputs) {
      const written = memoryOutput("x.safetensors");
      await convert(input, written);
      expect(Buffer.from(written.files.get("x.safetensors") ?? []).equals(wanted)).toBe(true);
    }
    expect((await model.tensors[0]?.bytes())?.byteLength).toBeGreaterThan(0);
    await model.close();
  });

  test("writes to a stream, in order, and closes it", async () => {
    const pieces: Uint8Array[] = [];
    let state = "open";
    const stream = new WritableStream<Uint8Array>({
      write: (piece) => void pieces.push(piece),
      close() {
        state = "closed";
      },
    });
    const { files } = await convertPortable(new Blob([readFileSync(at("m.gguf"))]), stream, { to: "safetensors" });
    await convert(at("m.gguf"), `${out}.safetensors`);
    expect(state).toBe("closed");
    expect(Buffer.concat(pieces).equals(readFileSync(`${out}.safetensors`))).toBe(true);
    expect(files).toEqual([{ path: "blob.safetensors", byteLength: readFileSync(`${out}.safetensors`).byteLength }]);
  });

  test("metadata that travels comes back, whatever the list of formats says", async () => {
    await convert(at("m.gguf"), `${out}.safetensors`);
    for (const formats of [[safetensors], undefined]) {
      const { losses } = await convert(`${out}.safetensors`, `${out}.gguf`, { formats, force: true });
      expect(losses).toEqual([]);
      expect(readFileSync(`${out}.gguf`).equals(readFileSync(at("m.gguf")))).toBe(true);
    }
  });

  test("tells progress from nothing to everything", async () => {
    const events: number[] = [];
    const { signal } = new AbortController();
    await convert(at("m.gguf"), `${out}.safetensors`, { signal, onProgress: ({ done }) => events.push(done) });
    expect(events[0]).toBe(0);
    expect(events.at(-1)).toBeGreaterThan(0);
  });

  test.each([
    ["an option that is none", { maxShard: 1 }, "usage/unknown-option"],
    ["a value that is none", { dtype: "f8" }, "usage/option-value"],
    ["a format that is none", { to: "zip" }, "usage/output-format"],
  ])("refuses %s, before anything is opened", async (_what, options, code) => {
    await expect(convert("missing.gguf", `${out}.safetensors`, options as object)).rejects.toMatchObject({ code });
  });

  test("replaces nothing without force, its own input never in part, and leaves nothing half-made", async () => {
    writeFileSync(`${out}.safetensors`, "mine");
    await expect(convert(at("m.gguf"), `${out}.safetensors`)).rejects.toMatchObject({ code: "usage/exists" });
    expect(readFileSync(`${out}.safetensors`, "utf8")).toBe("mine");
    const before = readdirSync(folder).sort();
    const controller = new AbortController();
    const onProgress = (): void => controller.abort(new Error("enough"));
    const { signal } = controller;
    await expect(convert(at("m.gguf"), `${out}.aero`, { signal, onProgress })).rejects.toThrow("enough");
    expect(readdirSync(folder).sort()).toEqual(before);
  });

  test.each([
    ["a path, without a file system", "x.gguf", "usage/output"],
    ["a stream, for several files", new WritableStream(), "usage/output-single"],
    ["a number", 7, "usage/output"],
  ])("refuses %s", async (_what, output, code) => {
    const input = new Blob([readFileSync(at("m.gguf"))]);
    const options = { to: "safetensors", maxShardSize: "1kB" } as const;
    await expect(convertPortable(input, output as string, options)).rejects.toMatchObject({ code });
  });

  test("a path in a vault or a store is refused: it would be a plain file of that name", async () => {
    for (const place of [`${at("m.gguf")}::x.gguf`, "s3://bucket/x.gguf"]) {
      await expect(convert(at("m.gguf"), place)).rejects.toMatchObject({
        name: expect.stringMatching(/Error$/) as string,
      });
    }
  });
});
