import { describe, expect, it } from "vitest";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { UsualRecords } from "./usual-records.ts";

const PLACE = { source: "x", offset: 0, what: "manifest" };
const ID = "0123456789abcdef0123456789abcdef";
const ENTRY = `{"path":"a/b.txt","size":12,"modified":"2026-01-02T03:04:05Z","is_dir":false,"chunks":["${ID}"],"pack_offset":0,"mtime":"2026-01-01T00:00:00Z","mode":420}`;
const CHUNK = `{"id":"${ID}","block_index":0,"data_offset":0,"block_len":44,"plaintext_len":12,"compressed_len":12,"cipher_hash":"ff","stored_raw":true}`;

function recordsOf(text: string): { readonly records: UsualRecords | undefined; readonly scanner: JsonScanner } {
  const scanner = new JsonScanner(text, PLACE);
  return { records: UsualRecords.of(scanner), scanner };
}

describe("UsualRecords", () => {
  it("reads an entry and moves behind it", () => {
    const { records, scanner } = recordsOf(`${ENTRY},${ENTRY}`);
    expect(records?.entry()).toMatchObject({
      path: "a/b.txt",
      size: 12,
      modified: "2026-01-02T03:04:05Z",
      isDir: false,
      chunks: [ID],
      packOffset: 0,
      mtime: "2026-01-01T00:00:00Z",
      mode: 420,
    });
    expect(scanner.position).toBe(ENTRY.length);
    scanner.position++;
    expect(records?.entry()?.modified).toBe("2026-01-02T03:04:05Z");
    expect(scanner.position).toBe(2 * ENTRY.length + 1);
  });

  it("reads an entry without chunks after one that has some", () => {
    const folder = `{"path":"d","size":0,"modified":"","is_dir":true,"chunks":[]}`;
    const { records, scanner } = recordsOf(`${ENTRY},${folder}`);
    records?.entry();
    scanner.position++;
    expect(records?.entry()).toMatchObject({ path: "d", isDir: true, chunks: [], modified: "", mode: undefined });
  });

  it("reads the record of a chunk", () => {
    const { records, scanner } = recordsOf(CHUNK);
    expect(records?.chunk(ID)).toMatchObject({ id: ID, innerId: undefined, blockLen: 44, storedRaw: true });
    expect(scanner.position).toBe(CHUNK.length);
  });

  it.each([
    ["white space", ENTRY.replace(",", ", ")],
    ["another key", ENTRY.replace("}", ',"note":1}')],
    ["another order", ENTRY.replace('"size":12,"modified"', '"modified"')],
    ["a number with a leading zero", ENTRY.replace(":12", ":012")],
    ["a number that a double rounds", ENTRY.replace(":12", ":9007199254740993")],
    ["a number with a fraction", ENTRY.replace(":12", ":1.5")],
    ["no number", ENTRY.replace(":12", ":")],
    ["a control character in a path", ENTRY.replace("a/b", "a\u0001b")],
    ["a control character in a time", ENTRY.replace("T00", "\n00")],
    ["an id that is none", ENTRY.replace(ID, ID.toUpperCase())],
    ["two ids without a comma", ENTRY.replace(`"${ID}"`, `"${ID}";"${ID}"`)],
    ["an end before the end", ENTRY.slice(0, 40)],
  ])("leaves an entry with %s to the field reader", (_, text) => {
    const { records, scanner } = recordsOf(text);
    expect(records?.entry()).toBeUndefined();
    expect(scanner.position).toBe(0);
  });

  it("leaves texts with escapes alone", () => {
    expect(recordsOf('{"path":"a\\nb"}').records).toBeUndefined();
  });
});
