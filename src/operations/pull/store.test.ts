import { describe, expect, it } from "vitest";
import { concatBytes } from "../../base/bytes.ts";
import {
  decodeJournal,
  encodeJournalHeader,
  encodeReceipt,
  encodeRecord,
  parseReceipt,
  type Receipt,
} from "./store.ts";

const check = new Uint8Array(16).fill(7);
const journal = concatBytes([encodeJournalHeader('100 etag "a b"'), encodeRecord(0, check), encodeRecord(41, check)]);

describe("decodeJournal()", () => {
  it("reads what was recorded", () => {
    expect(decodeJournal(journal)).toEqual({
      identity: '100 etag "a b"',
      records: [
        { index: 0, check },
        { index: 41, check },
      ],
      byteLength: journal.byteLength,
    });
  });

  it("accepts no torn record, at any byte", () => {
    const headerEnd = journal.indexOf(0x0a) + 1;
    for (let end = 0; end < journal.byteLength; end++) {
      const found = decodeJournal(journal.slice(0, end));
      if (end < headerEnd) expect(found).toBeUndefined();
      else expect(found?.records).toHaveLength(Math.floor((end - headerEnd) / 24));
    }
  });

  it("stops at a record of zeros, as a hole reads, and at a flipped bit", () => {
    expect(decodeJournal(concatBytes([journal, new Uint8Array(24)]))?.records).toHaveLength(2);
    const flipped = journal.slice();
    flipped[journal.byteLength - 30] = (flipped[journal.byteLength - 30] as number) ^ 1;
    expect(decodeJournal(flipped)?.records).toHaveLength(0);
  });

  it("refuses anything but a journal", () => {
    for (const text of ["", "\n", 'tare-pull 2 "x"\n', "tare-pull 1 {}\n", "x".repeat(5000)]) {
      expect(decodeJournal(new TextEncoder().encode(text))).toBeUndefined();
    }
  });
});

it("parseReceipt() restores what was kept, and nothing from damaged entries", () => {
  const receipt: Receipt = new Map([
    ["a.aero", { from: "http://h/a.aero", byteLength: 3, stamp: "3:1", etag: '"x"' }],
    ["__proto__", { from: "http://h/b", byteLength: 4, stamp: "4:1", sha256: "00".repeat(32) }],
  ]);
  const bytes = encodeReceipt(receipt);
  expect(parseReceipt(bytes).get("a.aero")).toEqual(receipt.get("a.aero"));
  expect(parseReceipt(bytes.slice(0, -5)).size).toBe(0);
  expect(parseReceipt(undefined).size).toBe(0);
  const odd = new TextEncoder().encode('{"version":1,"files":{"x":3,"y":{"from":1}}}');
  expect(parseReceipt(odd).size).toBe(0);
});
