import { expect, test } from "vitest";
import { NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { ChunkRecord } from "../manifest/records.ts";
import { SpacePlan } from "./free-space.ts";

function record(dataOffset: number, byteLength: number): ChunkRecord {
  const lengths = { blockLen: byteLength - 8, plaintextLen: 1, compressedLen: 1 };
  const own = { id: String(dataOffset), blockIndex: 0, cipherHash: "", storedRaw: false, extra: NO_EXTRA_KEYS };
  return { ...own, ...lengths, dataOffset };
}

test("a new vault has its blocks after the header and its sections after them", () => {
  const space = new SpacePlan({ records: [], sections: [] });
  expect([space.placeBlock(100), space.placeBlock(50)]).toEqual([1024, 1124]);
  expect(space.dataEnd).toBe(1174);
  expect(space.placeSections(30)).toBe(1174);
  expect(space.end).toBe(1204);
});

test("a change writes after everything that the current header refers to", () => {
  const kept = record(0, 10_000);
  const space = new SpacePlan({ records: [kept], sections: [{ offset: 11_024, byteLength: 500 }] });
  space.keepBlock(kept);
  expect(space.placeSections(600)).toBe(11_524);
  expect(space.dataEnd).toBe(11_024);
});

test("a change without new blocks uses the room of the manifest before the last", () => {
  const kept = record(0, 10_000);
  const space = new SpacePlan({ records: [kept], sections: [{ offset: 20_000, byteLength: 500 }] });
  space.keepBlock(kept);
  expect(space.placeSections(8_000)).toBe(11_024);
});

test("sections are never placed before the end of the data", () => {
  const blocks = [record(0, 100), record(50_000, 100)];
  const space = new SpacePlan({ records: blocks, sections: [{ offset: 60_000, byteLength: 10 }] });
  for (const block of blocks) space.keepBlock(block);
  expect(space.placeSections(2_000)).toBe(51_124);
});

test("new blocks fill only gaps that nothing refers to", () => {
  const blocks = [record(0, 1_000), record(20_000, 1_000)];
  const space = new SpacePlan({ records: blocks, sections: [{ offset: 22_024, byteLength: 100 }] });
  for (const block of blocks) space.keepBlock(block);
  expect(space.placeBlock(15_000)).toBe(2_024);
  expect(space.placeBlock(15_000)).toBe(22_124);
  expect(space.placeBlock(3_000)).toBe(17_024);
  expect(space.dataEnd).toBe(37_124);
  expect(space.placeSections(10)).toBe(37_124);
});

test("dropping blocks shortens the data section", () => {
  const blocks = [record(0, 1_000), record(1_000, 90_000)];
  const space = new SpacePlan({ records: blocks, sections: [{ offset: 92_024, byteLength: 100 }] });
  space.keepBlock(blocks[0] as ChunkRecord);
  expect(space.dataEnd).toBe(2_024);
  // The room of the dropped block is in use until the new header is written.
  expect(space.placeSections(200)).toBe(92_124);
});

test('with "tail" neither blocks nor sections go into gaps', () => {
  const blocks = [record(0, 100), record(50_000, 100)];
  const space = new SpacePlan({ records: blocks, sections: [{ offset: 90_000, byteLength: 10 }] }, "tail");
  for (const block of blocks) space.keepBlock(block);
  expect(space.placeBlock(10_000)).toBe(90_010);
  expect(space.placeSections(2_000)).toBe(100_010);
});
