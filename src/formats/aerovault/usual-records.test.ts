import { describe, expect, it } from "vitest";
import { CHUNK_ID, UNUSUAL_ENTRIES, USUAL_ENTRY } from "../../../test/vectors/vault-entries.ts";
import { UsualRecords } from "./usual-records.ts";

const CHUNK = `{"id":"${CHUNK_ID}","block_index":0,"data_offset":0,"block_len":44,"plaintext_len":12,"compressed_len":12,"cipher_hash":"ff","stored_raw":true}`;

describe("UsualRecords", () => {
  it("reads an entry and says where it ends", () => {
    const records = new UsualRecords(`${USUAL_ENTRY},${USUAL_ENTRY}`);
    expect(records.entry(0)).toMatchObject({
      path: "a/b.txt",
      size: 12,
      modified: "2026-01-02T03:04:05Z",
      isDir: false,
      chunks: [CHUNK_ID],
      packOffset: 0,
      mtime: "2026-01-01T00:00:00Z",
      mode: 420,
    });
    expect(records.end).toBe(USUAL_ENTRY.length);
    expect(records.entry(records.end + 1)?.modified).toBe("2026-01-02T03:04:05Z");
    expect(records.end).toBe(2 * USUAL_ENTRY.length + 1);
  });

  it("reads an entry without chunks after one that has some", () => {
    const folder = `{"path":"d","size":0,"modified":"","is_dir":true,"chunks":[]}`;
    const records = new UsualRecords(`${USUAL_ENTRY},${folder}`);
    records.entry(0);
    const found = records.entry(records.end + 1);
    expect(found).toMatchObject({ path: "d", isDir: true, chunks: [], modified: "", mode: undefined });
  });

  it("reads the record of a chunk", () => {
    const records = new UsualRecords(CHUNK);
    const found = records.chunk(0, CHUNK_ID);
    expect(found).toMatchObject({ id: CHUNK_ID, innerId: undefined, blockLen: 44, cipherHash: "ff", storedRaw: true });
    expect(records.end).toBe(CHUNK.length);
    expect(records.chunk(0, "another")).toMatchObject({ id: "another", innerId: CHUNK_ID });
    const compressed = new UsualRecords(CHUNK.replace(',"stored_raw":true', "")).chunk(0, CHUNK_ID);
    expect(compressed?.storedRaw).toBe(false);
  });

  it.each([
    ["white space", CHUNK.replace(":44", ": 44")],
    ["a number with a leading zero", CHUNK.replace(":44", ":044")],
    ["a number that a double rounds", CHUNK.replace(":44", ":9007199254740993")],
    ["another key", CHUNK.replace("}", ',"note":1}')],
    ["what only the field reader knows to be true", CHUNK.replace("true", "false")],
  ])("leaves a chunk's record with %s to the field reader", (_, text) => {
    expect(new UsualRecords(text).chunk(0, CHUNK_ID)).toBeUndefined();
  });

  it.each(UNUSUAL_ENTRIES)("leaves an entry with %s to the field reader", (_, text) => {
    const records = new UsualRecords(text);
    expect(records.entry(0)).toBeUndefined();
    expect(records.end).toBe(0);
  });
});
