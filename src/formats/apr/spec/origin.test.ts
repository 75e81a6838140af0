import { describe, expect, it } from "vitest";
import { type BuiltFile, buildApr } from "../../../../test/builders/apr.ts";
import { buildAprender, buildAprn, buildWhisper } from "../../../../test/builders/apr-layouts.ts";
import { READERS, writerById } from "../../../../test/builders/loaded-formats.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { memoryOutput, memorySource } from "../../../bytes/memory.ts";
import type { Loss } from "../../../model/finding.ts";
import type { Opened } from "../../../model/format.ts";
import { openSource } from "../../../open.ts";
import type { ConversionOptions } from "../../../operations/convert/content.ts";
import { prepareConversion, writeConversion } from "../../../operations/convert.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import { portableEngine } from "../../../primitives/portable.ts";

const engine = portableEngine();
const TENSORS = [
  { name: "a", dtype: 3, data: Uint8Array.of(1, 2, 3, 4) },
  { name: "b", dtype: 3, data: Uint8Array.of(5, 6) },
];

/** As tare writes it. */
const OWN_METADATA = '{"apr_version":"2.0.0","model_type":"m","architecture":{}}';

const open = (bytes: Bytes, name = "m.apr"): Promise<Opened> => openSource(memorySource(bytes, name), { engine });

async function convert(opened: Opened, to: string, options: Partial<ConversionOptions> = {}): Promise<Bytes> {
  const name = `m.${to}`;
  const conversion = await prepareConversion(opened, writerById(to), { name, formats: READERS, ...options });
  const output = memoryOutput(name);
  await writeConversion(conversion, output, { engine });
  return output.files.get(name) as Bytes;
}

/** The names of what is refused. */
async function losses(opened: Opened, to = "safetensors", more: Partial<ConversionOptions> = {}): Promise<string[]> {
  const options = { name: "m", formats: READERS, ...more };
  await expect(prepareConversion(opened, writerById(to), options)).rejects.toMatchObject({ code: "unsupported/lossy" });
  const { plan } = await prepareConversion(opened, writerById(to), { ...options, allowLossy: "allow-lossy" });
  return plan.losses.map(({ name }: Loss) => name);
}

describe("facts of a header and an index besides the tensors", () => {
  it.each<[string, BuiltFile]>([
    ["white space after the metadata", { metadata: `${OWN_METADATA} \n\t` }],
    ["NUL bytes after the metadata", { metadata: `${OWN_METADATA}\0\0\0` }],
    ["white space around metadata", { metadata: ` ${OWN_METADATA.replace(":", ": ")} ` }],
    ["version_minor", { version: [2, 3] }],
    ["reserved", { reserved: 0xdeadbeef }],
    ["unknown flags", { flags: 0x8000_0002, tensors: [{ name: "a", dtype: 3, data: Uint8Array.of(1), flags: 0x200 }] }],
  ])("come back byte for byte: %s", async (_, file) => {
    const bytes = buildApr({ tensors: TENSORS, ...file });
    expect(await convert(await open(bytes), "apr")).toEqual(bytes);
    for (const through of ["safetensors", "gguf", "aero"]) {
      const there = await convert(await open(bytes), through);
      expect(await convert(await open(there, `m.${through}`), "apr"), through).toEqual(bytes);
    }
  });

  it("are a loss if they come after the last entry of the index", async () => {
    const indexRest = Uint8Array.of(0, 7, 7, 0);
    const bytes = buildApr({ tensors: TENSORS, indexRest });
    expect(await losses(await open(bytes))).toEqual([expect.stringMatching(/^\d+ bytes from \d+$/)]);
    expect(await losses(await open(bytes), "apr")).toHaveLength(1);
    const zeros = buildApr({ tensors: TENSORS, indexRest: new Uint8Array(4) });
    expect((await convert(await open(zeros), "safetensors")).byteLength).toBeGreaterThan(0);
  });

  it("keep a key that appears twice, and say when its first value is lost", async () => {
    const metadata = '{"apr_version":"2.0.0","model_type":"t","architecture":{},"x":1,"x":2}';
    const bytes = buildApr({ metadata, tensors: TENSORS });
    expect(await convert(await open(bytes), "apr")).toEqual(bytes);
    const overlay = { entries: [{ key: "apr_version", value: { type: "string", value: "2.0.1" } }] } as const;
    expect(await losses(await open(bytes), "apr", { given: { overlay } })).toEqual(['"x"']);
    const same = buildApr({ metadata: metadata.replace('"x":1', '"x":2'), tensors: TENSORS });
    expect((await convert(await open(same), "apr", { given: { overlay } })).byteLength).toBeGreaterThan(0);
  });

  it.each<[string, BuiltFile, string]>([
    ["version_minor", { version: [2, 3] }, "version_minor"],
    ["reserved", { reserved: 1 }, "reserved"],
    ["flags", { flags: 0x8000_0002 }, "flags"],
    ["flags of a tensor", { tensors: [{ name: "a", data: Uint8Array.of(1), flags: 0x200 }] }, "a"],
    ["a key twice", { metadata: '{"apr_version":"2.0.0","model_type":"t","architecture":{},"x":1,"x":2}' }, '"x"'],
  ])("have no place in the layout of aprender: %s", async (_, file, name) => {
    const opened = await open(buildApr({ tensors: TENSORS, ...file }));
    expect(await losses(opened, "apr", { layout: "aprender" })).toEqual([expect.stringContaining(name)]);
  });
});

describe("facts of a set's shards besides their tensors", () => {
  const SHARDED = 0x0a;

  function openSet(...files: readonly BuiltFile[]): Promise<Opened> {
    const shards = files.map((file, i) => {
      return buildApr({ flags: SHARDED, tensors: [TENSORS[i] as (typeof TENSORS)[number]], ...file });
    });
    const crcOf = (bytes: Bytes): number => crc32Javascript(bytes.subarray(0, -16), 0);
    const manifest = {
      apr_version: "2.0.0",
      sharded: true,
      shard_count: shards.length,
      shards: shards.map((bytes, i) => ({ file: `s-${i}.apr`, size: bytes.byteLength, crc32: crcOf(bytes) })),
      tensor_shard_map: { a: 0, b: 1 },
    };
    const resolve = async (file: string) => memorySource(shards[Number(/\d+/.exec(file)?.[0])] as Bytes, file);
    const source = memorySource(encodeUtf8(JSON.stringify(manifest)), "m.apr");
    return openSource(source, { engine, resolver: { name: "m.apr", resolve } });
  }

  it("go into the merged file if all shards agree", async () => {
    const common = { version: [2, 5], reserved: 9, flags: SHARDED | 0x4000_0000 } as const;
    const tensor = { ...(TENSORS[1] as (typeof TENSORS)[number]), flags: 0x400 };
    const opened = await openSet(common, { ...common, tensors: [tensor] });
    const whole = { version: [2, 5], reserved: 9, flags: 0x4000_0002 } as const;
    const metadata = '{"apr_version":"2.0.0","model_type":"test","architecture":{}}';
    const merged = buildApr({ ...whole, metadata, tensors: [TENSORS[0] as (typeof TENSORS)[number], tensor] });
    expect(await convert(opened, "apr")).toEqual(merged);
  });

  it.each<[string, BuiltFile, string]>([
    ["version_minor", { version: [2, 3] }, "version_minor of s-1.apr"],
    ["reserved", { reserved: 1 }, "reserved of s-1.apr"],
    ["flags", { flags: SHARDED | 0x4000_0000 }, "flags of s-1.apr"],
    [
      "a key twice",
      { metadata: '{"apr_version":"2.0.0","model_type":"test","architecture":{"a":1},"architecture":{}}' },
      '"architecture" of s-1.apr',
    ],
  ])("are a loss if one shard differs: %s", async (_, second, name) => {
    expect(await losses(await openSet({}, second))).toEqual([name]);
  });
});

describe("facts that only other layouts have", () => {
  const tensors = [{ name: "a", dtype: 0, shape: [1], bytes: Uint8Array.of(0, 0, 128, 63) }];

  it.each<[string, Parameters<typeof buildAprender>[0], string]>([
    ["version_minor", { tensors, version: [2, 1] }, "version_minor"],
    ["unknown flags", { tensors, flags: 0x8400 }, "flags"],
    ["reserved bytes", { tensors, reserved: 1 }, "reserved"],
  ])("are a loss: %s of aprender", async (_, file, name) => {
    expect(await losses(await open(buildAprender(file)))).toEqual([name]);
  });

  it("are a loss: reserved bytes and flags of whisper.apr", async () => {
    const bytes = buildWhisper({
      flags: 0x80,
      tensors: [{ name: "w", shape: [1], bytes: Uint8Array.of(0, 0, 128, 63) }],
    });
    bytes[52 + 90] = 1;
    expect((await losses(await open(bytes))).sort()).toEqual(["flags", "reserved of w"]);
  });

  it("are a loss: the payload and the header fields of APRN", async () => {
    const opened = await open(buildAprn({ payload: Uint8Array.of(1, 2) }));
    expect(await losses(opened)).toEqual(expect.arrayContaining(["payload", "header"]));
  });
});
