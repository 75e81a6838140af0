import { expect, it } from "vitest";
import type { Bytes } from "../src/base/bytes.ts";
import { memorySource } from "../src/bytes/memory.ts";
import { openSource } from "../src/open.ts";
import { showField } from "../src/struct/field-places.ts";
import { buildAero, smallAero } from "./builders/aero.ts";
import { buildApr } from "./builders/apr.ts";
import { buildEmbd } from "./builders/embd.ts";
import { smallGguf, smallSafetensors } from "./cli/small-models.ts";

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
  ["m.apr", buildApr(), { "header.magic": '"APR2"', "footer.magic_end": '"2RPA"' }],
  ["m.weights", buildEmbd(), { "header.magic": '"EMBD"', "footer.magic_end": '"DBME"' }],
  ["m.safetensors", smallSafetensors(), {}],
];

it.each(FILES)("%s names its fields, and each lies inside the file", async (name, bytes, shown) => {
  const { container, format } = await openSource(memorySource(bytes, name), { name });
  const range = { part: 0, offset: 0, byteLength: bytes.byteLength };
  const fields = (await format.fields?.(container, range)) ?? [];
  expect(fields.length).toBeGreaterThan(1);
  for (const { offset, byteLength } of fields) expect(offset + byteLength).toBeLessThanOrEqual(bytes.byteLength);
  const values = new Map(
    fields.map((field) => [field.name, showField(field, bytes.slice(field.offset, field.offset + field.byteLength))]),
  );
  for (const [field, value] of Object.entries(shown)) expect(values.get(field), field).toBe(value);
  if (name === "m.safetensors") expect(Number(values.get("header_length"))).toBeGreaterThan(100);
});
