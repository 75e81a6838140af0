import { describe, expect, test } from "vitest";
import {
  buildAero,
  map,
  mjsn,
  mmsg,
  ONE_TWO_THREE,
  pack,
  tensorEntry,
  tidxOf,
  wtsh,
} from "../../test/builders/aero.ts";
import { array, buildGguf, byteTensor, text, u32 } from "../../test/builders/gguf.ts";
import { READERS, writerById } from "../../test/builders/loaded-formats.ts";
import { rawSafetensors } from "../../test/builders/safetensors.ts";
import { type Bytes, concatBytes } from "../base/bytes.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memoryOutput, memorySource } from "../bytes/memory.ts";
import { readChunk } from "../formats/aero/chunks/chunk.ts";
import { AeroModel } from "../formats/aero/model.ts";
import { readersOf } from "../formats/registry.ts";
import type { Opened } from "../model/format.ts";
import { openSource } from "../open.ts";
import { crc32Javascript } from "../primitives/digest/crc32.ts";
import { portableEngine } from "../primitives/portable.ts";
import { originFormats, prepareConversion, writeConversion } from "./convert.ts";

/**
 * A model goes from one format to a second, another program changes the file, and the model goes back to the first
 * format: what the second format's file says beyond what tare writes comes with it, for the next file of that format.
 */

const engine = portableEngine();
const EXTENSIONS = { aero: "aero", safetensors: "safetensors", apr: "apr", gguf: "gguf", embd: "weights" } as const;
type Id = keyof typeof EXTENSIONS;

const open = (bytes: Bytes, id: Id): Promise<Opened> => openSource(memorySource(bytes, `m.${EXTENSIONS[id]}`));

async function convert(bytes: Bytes, from: Id, to: Id, known?: "known formats"): Promise<Bytes> {
  const name = `m.${EXTENSIONS[to]}`;
  const formats = known === undefined ? READERS : await readersOf(originFormats(await open(bytes, from)));
  const options = { name, formats, ...(to === "aero" ? { uuid: new Uint8Array(16).fill(7) } : {}) };
  const conversion = await prepareConversion(await open(bytes, from), writerById(to), options);
  const output = memoryOutput(name);
  await writeConversion(conversion, output, { engine });
  return output.files.get(name) as Bytes;
}

/** A SafeTensors file with one tensor "w". */
function safetensorsFile(metadata: object = {}): Bytes {
  const entry = { dtype: "F32", shape: [3], data_offsets: [0, 12] };
  const text = JSON.stringify({ ...metadata, w: entry });
  const header = encodeUtf8(text.padEnd(Math.ceil(text.length / 8) * 8));
  const length = new Uint8Array(new BigUint64Array([BigInt(header.byteLength)]).buffer);
  return concatBytes([length, header, ONE_TWO_THREE]);
}

/** The names and the text of all chunks of an AERO file but the weights. */
async function controlText(bytes: Bytes): Promise<string> {
  const { container } = await open(bytes, "aero");
  if (!(container instanceof AeroModel)) throw new Error("no AERO");
  const { source, control } = container.content;
  const texts: string[] = [];
  for (const fourcc of ["MJSN", "MMSG", "TIDX"]) {
    const chunk = control.toc.first(fourcc);
    if (chunk === undefined) throw new Error(`no ${fourcc}`);
    const content = await readChunk(source, chunk, container.chunkContext({ engine }));
    texts.push(chunk.name, new TextDecoder("latin1").decode(content));
  }
  return texts.join("\n");
}

/** An AERO file that came from `from`, as another program wrote it. */
function foreignAero(from: Id, change: "keys" | "name" | "chunk" | "metadata"): Bytes {
  const keyed = change === "keys";
  const more = (marker: string) => (keyed ? { more: marker } : {});
  const entries = ["model_name", "architecture", "source_format"].map((key, i) => [
    ...[key, "added"],
    JSON.stringify(["converted", "unknown", from][i]),
  ]);
  const json = mjsn({
    model_name: change === "metadata" ? "MARKER1" : "converted",
    architecture: "unknown",
    source_format: from,
    "tare.origin": JSON.stringify({ chain: [{ format: from, facts: {} }], entries }),
  });
  const manifest = map({
    format: map({ name: "AERO", version: [0, 1] }),
    model: map({ name: change === "name" ? "MARKER1" : "converted", architecture: "unknown", ...more("MARKER1") }),
    chunks: [],
    shards: [],
    ...more("MARKER2"),
  });
  const tensors = [tensorEntry({ name: "w", ...(keyed ? { more: { more: "MARKER3" } } : {}) })];
  return buildAero({
    chunks: [
      change === "chunk" ? { ...json, name: "MARKER1" } : json,
      { ...mmsg(), content: pack(manifest) },
      tidxOf(map({ tensors, ...more("MARKER4") })),
      wtsh(ONE_TWO_THREE),
    ],
  });
}

const markers = (text: string): readonly string[] => [...new Set(text.match(/MARKER[0-9]/g))].sort();

const ORIGINS: readonly Id[] = ["safetensors", "gguf", "apr", "embd"];

describe.each(ORIGINS)("an AERO file that came from %s", (from) => {
  test.each([
    ["keys", ["MARKER1", "MARKER2", "MARKER3", "MARKER4"]],
    ["name", ["MARKER1"]],
    ["chunk", ["MARKER1"]],
    ["metadata", ["MARKER1"]],
  ] as const)("keeps its own %s on the way back", async (change, expected) => {
    const bytes = foreignAero(from, change);
    expect(markers(await controlText(bytes))).toEqual(expected);
    const back = await convert(bytes, "aero", from);
    expect(markers(await controlText(await convert(back, from, "aero")))).toEqual(expected);
    // Two formats later, and on the way through the one that it came from.
    const other = from === "gguf" ? "apr" : "gguf";
    const third = await convert(await convert(bytes, "aero", other), other, from);
    expect(markers(await controlText(await convert(third, from, "aero")))).toEqual(expected);
  });
});

/** What other programs may write into the second file. */
const CHANGES: readonly (readonly [what: string, id: Id, change: (bytes: Bytes) => Bytes])[] = [
  ["version_minor", "apr", (bytes) => sealApr(bytes, 6, 9)],
  ["an unknown header flag", "apr", (bytes) => sealApr(bytes, 11, 0x80)],
  ["the reserved field", "apr", (bytes) => sealApr(bytes, new DataView(bytes.buffer).getUint32(20, true) + 4, 7)],
  ["version 2", "gguf", (bytes) => changed(bytes, 4, 2)],
  ["an unknown header flag", "embd", sealEmbdFlags],
];

describe.each(CHANGES)("%s of %s", (_what, id, change) => {
  test.each(["safetensors", "aero"] as const)(
    "comes back after a visit to %s, where the model came from",
    async (from) => {
      const original = await convert(safetensorsFile(), "safetensors", from === "aero" ? "aero" : "safetensors");
      const foreign = change(await convert(original, from, id));
      const back = await convert(foreign, id, from);
      expect(await convert(back, from, id)).toEqual(foreign);
    },
  );
});

test.each(["aero", "apr", "gguf", "embd"] as const)(
  "a SafeTensors file comes back byte for byte from the %s file that tare made of it",
  async (through) => {
    for (const metadata of [{}, { __metadata__: { model_name: "m", architecture: "a" } }]) {
      const original = safetensorsFile(metadata);
      const back = await convert(await convert(original, "safetensors", through), through, "safetensors");
      expect(back).toEqual(original);
    }
  },
);

function changed(bytes: Bytes, offset: number, value: number): Bytes {
  const copy = bytes.slice();
  copy[offset] = value;
  return copy;
}

function sealApr(bytes: Bytes, offset: number, value: number): Bytes {
  const copy = changed(bytes, offset, value);
  const end = copy.byteLength - 16;
  new DataView(copy.buffer).setUint32(end, crc32Javascript(copy.subarray(0, end), 0), true);
  return copy;
}

/** Sets a flag that has no name, and both checksums that cover it. */
function sealEmbdFlags(bytes: Bytes): Bytes {
  const copy = changed(bytes, 11, (bytes[11] ?? 0) | 0x40);
  const view = new DataView(copy.buffer);
  view.setUint32(56, crc32Javascript(copy.subarray(0, 56), 0), true);
  view.setUint32(copy.byteLength - 12, crc32Javascript(copy.subarray(0, copy.byteLength - 16), 0), true);
  return copy;
}

describe("a GGUF with an empty key", () => {
  const values = [
    { type: 8, value: text("v") },
    { type: 4, value: u32(7) },
    { type: 9, value: array(4, [u32(1), u32(2)]) },
  ];
  const bytesOf = (value: (typeof values)[number]): Bytes =>
    buildGguf({
      kvs: [
        { key: "general.architecture", type: 8, value: text("llama") },
        { key: "", ...value },
      ],
      tensors: [byteTensor("a", 12, 0)],
      data: new Uint8Array(32),
    });
  const paths: readonly (readonly Id[])[] = [
    ["safetensors"],
    ["aero"],
    ["apr"],
    ["safetensors", "aero", "apr"],
    ["gguf"],
    ["aero", "gguf", "safetensors"],
  ];
  test.each(paths.map((path) => [path.join(", "), path] as const))("comes back by way of %s", async (_, path) => {
    for (const value of values) {
      let bytes = bytesOf(value);
      let from: Id = "gguf";
      for (const to of [...path, "gguf"] as const) {
        bytes = await convert(bytes, from, to);
        from = to;
      }
      expect(bytes).toEqual(bytesOf(value));
    }
  });

  test("is not made of an empty key of another format, which comes back too", async () => {
    const first = safetensorsFile({ __metadata__: { "": "v" } });
    const there = await convert(first, "safetensors", "gguf");
    const { container } = await open(there, "gguf");
    expect((container as { warnings: readonly unknown[] }).warnings).toEqual([]);
    expect(await convert(there, "gguf", "safetensors")).toEqual(first);
  });
});

test("a value in the encoding of a format that left the chain is read", async () => {
  const header = JSON.stringify({ __metadata__: { architecture: "true", "": "1e400" } });
  const bytes = rawSafetensors(header);
  let now = bytes;
  const path = ["safetensors", "apr", "gguf", "apr", "safetensors"] as const;
  for (const [i, to] of path.slice(1).entries()) now = await convert(now, path[i] ?? to, to, "known formats");
  expect(now).toEqual(bytes);
});
