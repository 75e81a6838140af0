/** Entries of a vault's manifest, as the reference and tare write them and otherwise. */

export const CHUNK_ID = "0123456789abcdef0123456789abcdef";

export const USUAL_ENTRY = `{"path":"a/b.txt","size":12,"modified":"2026-01-02T03:04:05Z","is_dir":false,"chunks":["${CHUNK_ID}"],"pack_offset":0,"mtime":"2026-01-01T00:00:00Z","mode":420}`;

/** What is unusual about each, and its text. */
export const UNUSUAL_ENTRIES: readonly (readonly [what: string, text: string])[] = [
  ["white space", USUAL_ENTRY.replace(",", ", ")],
  ["another key", USUAL_ENTRY.replace("}", ',"note":1}')],
  ["another order", USUAL_ENTRY.replace('"size":12,"modified"', '"modified"')],
  ["a number with a leading zero", USUAL_ENTRY.replace(":12", ":012")],
  ["a number that a double rounds", USUAL_ENTRY.replace(":12", ":9007199254740993")],
  ["a number with a fraction", USUAL_ENTRY.replace(":12", ":1.5")],
  ["no number", USUAL_ENTRY.replace(":12", ":")],
  ["a control character in a path", USUAL_ENTRY.replace("a/b", "a\u0001b")],
  ["a control character in a time", USUAL_ENTRY.replace("T00", "\n00")],
  ["an id that is none", USUAL_ENTRY.replace(CHUNK_ID, CHUNK_ID.toUpperCase())],
  ["two ids without a comma", USUAL_ENTRY.replace(`"${CHUNK_ID}"`, `"${CHUNK_ID}";"${CHUNK_ID}"`)],
  ["neither true nor false", USUAL_ENTRY.replace("false", "null")],
  ["an end before the end", USUAL_ENTRY.slice(0, 40)],
];
