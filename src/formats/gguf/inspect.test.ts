import { expect, test } from "vitest";
import { array, buildGguf, text, u8, u32 } from "../../../test/builders/gguf.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { showField } from "../../struct/fields.ts";
import { ggufFields } from "./inspect.ts";
import { openGguf } from "./read.ts";

test("the value of a key is shown as what it is: a text, a number, an array by its type and length", async () => {
  const kvs = [
    { key: "name", type: 8, value: text("tare demo") },
    { key: "layers", type: 4, value: u32(7) },
    { key: "bias", type: 1, value: u8(0xff) },
    { key: "tags", type: 9, value: array(4, [u32(1), u32(2)]) },
  ];
  const bytes = buildGguf({ kvs });
  const model = await openGguf(memorySource(bytes, "a.gguf"), { engine: portableEngine(), limits: {} });
  const places = ggufFields(model, { part: 0, offset: 0, byteLength: bytes.byteLength });
  const shown = places
    .filter(({ name }) => /\.value\b/.test(name))
    .map((place) => [place.name, showField(place, bytes.slice(place.offset, place.offset + place.byteLength))]);
  expect(shown).toEqual([
    ["metadata_kv[0].value.len", "9"],
    ["metadata_kv[0].value of name", '"tare demo"'],
    ["metadata_kv[1].value of layers", "7"],
    ["metadata_kv[2].value of bias", "-1"],
    ["metadata_kv[3].value.type", "4"],
    ["metadata_kv[3].value.len", "2"],
    ["metadata_kv[3].value of tags", "0100000002000000"],
  ]);
});
