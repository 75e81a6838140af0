import { expect, it } from "vitest";
import type { Bytes } from "../src/base/bytes.ts";
import { memorySource } from "../src/bytes/memory.ts";
import { openSource } from "../src/open.ts";
import { showField } from "../src/struct/fields.ts";
import { buildAero, smallAero } from "./builders/aero.ts";
import { buildAprender } from "./builders/apr-layouts.ts";
import { rawSafetensors } from "./builders/safetensors.ts";
import { smallGguf, smallSafetensors } from "./cli/small-models.ts";
import { loadFixture, loadSiblings } from "./support/fixtures.ts";

const FILES: readonly (readonly [name: string, bytes: Bytes, shown: Readonly<Record<string, string>>])[] = [
  [
    "m.gguf",
    smallGguf(),
    {
      "header.magic": '"GGUF"',
      "header.tensor_count": "1",
      "metadata_kv[0].key": '"general.architecture"',
      "tensor_infos[0].name": '"blk.0.attn_norm.weight"',
      "tensor_infos[0].dimensions[0]": "4",
    },
  ],
  [
    "m.aero",
    buildAero({ chunks: smallAero() }),
    { "header.magic": '"AERO"', "header.header_size": "96", "toc[0].fourcc": '"MJSN"' },
  ],
  [
    "m.apr",
    loadFixture("apr", "one-tensor"),
    {
      "header.magic": '"APR2"',
      "index.tensor_count": "1",
      "index[0].name": '"w"',
      "index[0].n_dims": "2",
      "footer.magic_end": '"2RPA"',
    },
  ],
  ["aprender.apr", buildAprender(), { "header.version_major": "2", "header.tensor_count": "0" }],
  [
    "m.weights",
    loadFixture("embd", "tiny"),
    { "header.magic": '"EMBD"', "tensor_index[0].ndim": "2", "footer.magic_end": '"DBME"' },
  ],
  ["m.safetensors", smallSafetensors(), {}],
  [
    "m.aerovault",
    loadFixture("aerovault", "one-file"),
    { "header.magic": '"AEROVAULT3"', "header.data_offset": "1024", "block[0].length": "6" },
  ],
  [
    "v1.aerovault",
    loadFixture("aerovault1-sealed", "small"),
    { "local[0].signature": String(0x04034b50), "directory[0].signature": String(0x02014b50), "end.rows": "3" },
  ],
];

it.each(FILES)("%s names its fields, and each lies inside the file", async (name, bytes, shown) => {
  const { container, reader } = await openSource(memorySource(bytes, name), { name });
  const range = { part: 0, offset: 0, byteLength: bytes.byteLength };
  const fields = (await reader.fields?.(container, range)) ?? [];
  expect(fields.length).toBeGreaterThan(1);
  for (const { offset, byteLength } of fields) expect(offset + byteLength).toBeLessThanOrEqual(bytes.byteLength);
  const values = new Map(
    fields.map((field) => [field.name, showField(field, bytes.slice(field.offset, field.offset + field.byteLength))]),
  );
  for (const [field, value] of Object.entries(shown)) expect(values.get(field), field).toBe(value);
  if (name !== "m.safetensors") return;
  expect([...values.keys()].some((field) => field.startsWith('header["'))).toBe(true);
  expect(Number(values.get("header_length"))).toBeGreaterThan(100);
});

it("a key of any length in a SafeTensors header is no entry to look for", async () => {
  const key = "a".repeat(24 << 20);
  const entry = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}';
  const bytes = rawSafetensors(`{"${key}":${entry},"a":${entry}}`);
  const { container, reader } = await openSource(memorySource(bytes, "m.safetensors"));
  const fields = await reader.fields?.(container, { part: 0, offset: 0, byteLength: bytes.byteLength });
  expect(fields?.at(-1)?.name).toBe('header["a"]');
});

it("files of a set are named as AERO files are", async () => {
  const files = loadSiblings("aeroset", "global-ids");
  const resolve = async (name: string) => memorySource(files.get(name) ?? new Uint8Array(0), name);
  const set = memorySource(loadFixture("aeroset", "global-ids"), "m.aeroset.json");
  const { container, reader } = await openSource(set, { resolver: { name: "m.aeroset.json", resolve } });
  const names = async (part: number): Promise<string[]> =>
    ((await reader.fields?.(container, { part, offset: 0, byteLength: 96 })) ?? []).map(({ name }) => name);
  expect(await names(0)).toEqual(["set"]);
  expect(await names(1)).toContain("header.toc_offset");
  expect(await names(2)).toEqual([]);
  await container.parts[2]?.source.read(0, 1);
  expect(await names(2)).toContain("header.toc_offset");
});
