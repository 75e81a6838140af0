import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { emptyManifest } from "../../../../test/builders/crafted-vault.ts";
import { CHUNK_ID, UNUSUAL_ENTRIES, USUAL_ENTRY } from "../../../../test/vectors/vault-entries.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { atOnce } from "../../../base/turns.ts";
import { JsonScanner } from "../../../struct/json-scanner.ts";
import { checkManifest } from "./check.ts";
import { decodeManifest, encodeManifest } from "./codec.ts";
import { type CutEntries, type CutManifest, loadCutEntries } from "./fast-entries.ts";
import { NO_EXTRA_KEYS } from "./field-reader.ts";
import type { ManifestEntry } from "./records.ts";
import { type EntryList, entryList } from "./records.ts";

const AT = { source: "vault", offset: 0 };
let cutEntries: CutEntries;
beforeAll(async () => {
  cutEntries = await loadCutEntries();
});

/** Scans a list of entries in JSON. */
function find(entries: readonly string[], before = ""): CutManifest | undefined {
  return cutEntries(encodeUtf8(`{${before}"entries":[${entries.join(",")}],"more":1}`));
}

/** The same, for lists that must be found. */
function list(entries: readonly string[]): EntryList {
  return (find(entries) as CutManifest).entries;
}

/** Whether all paths are known to be proper and in order. */
function areProper(...paths: readonly string[]): boolean {
  return list(paths.map((path) => textOf(entry({ path })))).folderStarts !== undefined;
}

function entry(change: Partial<ManifestEntry>): ManifestEntry {
  return { path: "a", size: 1, modified: "", isDir: false, chunks: [], extra: NO_EXTRA_KEYS, ...change };
}

/** The JSON text of one record. Encoded alone, because encoding sorts. */
function textOf(record: ManifestEntry): string {
  const manifest = { ...emptyManifest("encrypted"), entries: entryList([record]) };
  const text = new TextDecoder().decode(encodeManifest(manifest));
  return text.slice(text.indexOf('"entries":[') + 11, text.indexOf('],"chunks":{'));
}

function summary(list: EntryList): unknown[] {
  return Array.from({ length: list.length }, (_, i) => [
    list.path(i),
    list.isDir(i),
    list.size(i),
    list.modified(i),
    list.mode(i),
  ]);
}

/** The result of opening a manifest: its entries, or the error. */
function outcome(bytes: Bytes, tool: CutEntries | undefined): unknown {
  try {
    const manifest = atOnce(decodeManifest(bytes, AT, tool));
    atOnce(checkManifest(manifest, "encrypted", { pathLength: 4096, pathDepth: 256 }, AT));
    return [summary(manifest.entries), manifest.entries.records(), [...manifest.chunks], manifest.extra];
  } catch (error) {
    if (!isTareError(error)) throw error;
    return [error.code, error.message, error.at];
  }
}

describe("loadCutEntries()", () => {
  it("finds an entry, and everything of it that is asked for", () => {
    const { entries, text } = find([USUAL_ENTRY]) as CutManifest;
    expect(text).toBe('{"entries":[],"more":1}');
    expect(summary(entries)).toEqual([["a/b.txt", false, 12, Date.UTC(2026, 0, 1), 420]]);
    expect(entries.record(0)).toMatchObject({ modified: "2026-01-02T03:04:05Z", chunks: [CHUNK_ID], packOffset: 0 });
    expect(entries.records()).toEqual([entries.record(0)]);
  });

  it("finds none in an empty list", () => {
    expect(list([]).records()).toEqual([]);
    expect(find([])).toMatchObject({ entries: { length: 0, folderStarts: [] }, text: '{"entries":[],"more":1}' });
  });

  it("counts UTF-16 units, before the list and in it", () => {
    const paths = ["b/ä.md", "b/層.md", "b/😀😀.md", "b/😁/é"];
    const texts = paths.map((path) => USUAL_ENTRY.replace("a/b.txt", path));
    const before = '"ü層😀":"ü層😀",';
    const cut = find(texts, before) as CutManifest;
    expect(cut.text).toBe(`{${before}"entries":[],"more":1}`);
    expect(paths.map((_, i) => cut.entries.path(i))).toEqual(paths);
    expect(paths.map((_, i) => cut.entries.record(i).path)).toEqual(paths);
    const scanner = new JsonScanner(cut.text, { ...AT, what: "manifest" });
    expect(cut.entriesAt(scanner)).toBeUndefined();
    scanner.position = cut.text.indexOf("[]");
    expect(cut.entriesAt(scanner)).toBe(cut.entries);
    expect(scanner.position).toBe(cut.text.indexOf("]") + 1);
  });

  it.each(UNUSUAL_ENTRIES)("leaves a list with %s to the field reader", (_, text) => {
    expect(find([text])).toBeUndefined();
    expect(find([USUAL_ENTRY, text, USUAL_ENTRY])).toBeUndefined();
  });

  it.each([
    ["an escape", [USUAL_ENTRY.replace("a/b", "a\\nb")]],
    ["a mode of more than 31 bits", [USUAL_ENTRY.replace(":420", ":2147483648")]],
    ["white space between entries", [USUAL_ENTRY, ` ${USUAL_ENTRY}`]],
    ["a comma at the end", [USUAL_ENTRY, ""]],
    [
      "more ids than a window holds",
      [USUAL_ENTRY.replace(`"${CHUNK_ID}"`, `"${CHUNK_ID}",`.repeat(20_000).slice(0, -1))],
    ],
  ])("leaves a list with %s to the field reader", (_, texts) => {
    expect(find(texts)).toBeUndefined();
  });

  it("continues from window to window, no matter where an entry is cut", () => {
    // Entries of many lengths, more than one window and more than its rows.
    const entries = Array.from({ length: 9000 }, (_, i) =>
      entry({
        path: `d${String(i >> 7).padStart(3, "0")}/f${String(i).padStart(6, "0")}${"x".repeat((i * 7) % 90)}`,
        size: i * 1000,
        chunks: i % 11 === 0 ? [CHUNK_ID, CHUNK_ID.replace("0", "f")] : [CHUNK_ID],
        packOffset: i % 3 === 0 ? i : undefined,
        mtime: i % 5 === 0 ? `2026-02-03T04:05:${10 + (i % 50)}.${String(i % 1000).padStart(9, "0")}Z` : undefined,
        modified: "2026-01-01T00:00:00Z",
        mode: i % 2 === 0 ? 0o644 : undefined,
      }),
    );
    const texts = entries.map(textOf);
    const found = list(texts);
    expect(found.length).toBe(9000);
    expect(found.folderStarts).toEqual(Array.from({ length: 71 }, (_, i) => i << 7));
    expect(found.records()).toEqual(entries);
    expect(summary(found)).toEqual(summary(entryList(entries)));
  });

  it.each([
    "2026-01-31T12:34:56Z",
    "2026-01-31T12:34:56.789Z",
    "2026-01-31T12:34:56.789123456Z",
    "2024-02-29T23:59:59Z",
    "2026-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2100-02-29T00:00:00Z",
    "2000-02-29T00:00:00.001Z",
    "1600-01-01T00:00:00Z",
    "1599-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999Z",
    "1969-12-31T23:59:59.999Z",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-31T24:00:00Z",
    "2026-01-31T12:60:00Z",
    "2026-01-31T12:34:60Z",
    "2026-01-31T12:34:56.7Z",
    "2026-01-31T12:34:56.Z",
    "2026-01-31T12:34:56,789Z",
    "2026-01-31T12:34:56+02:00",
    "2026-01-31 12:34:56Z",
    "2026-1-031T12:34:56Z",
    "2026-01-31T12:34:5xZ",
    "2026-01-31",
    "",
    "yesterday, at noon, perhaps",
  ])("reads the time %j as Date does", (mtime) => {
    const entries = list([textOf(entry({ mtime })), textOf(entry({ path: "b", modified: mtime }))]);
    expect(entries.modified(0)).toBe(Date.parse(mtime));
    expect(entries.modified(1)).toBe(Date.parse(mtime));
  });

  it.each([
    "",
    "a//b",
    "/a",
    "a/",
    ".",
    "..",
    "a/./b",
    "a/../b",
    "C:",
    "c:/x",
    " a",
    "a ",
    "ä",
    "é/a",
    "a/é",
    "\u3000",
  ])("leaves the path %j to the general check", (path) => {
    expect(areProper(path)).toBe(false);
  });

  it.each(["a", "a/b", ".a", "..a", "a..", "a/...", "ab:", "a/c:/d", "a b/c", "x/ä/y", "x/é.md", "a/\u007f"])(
    "knows that the path %j is proper",
    (path) => {
      expect(areProper(path)).toBe(true);
      expect(areProper(path, path)).toBe(false);
    },
  );

  it.each([
    ["a", "b"],
    ["a", "a/b", "a/c/d", "a/d", "b"],
    ["a/\u00ff.", "a/\u{10000}."],
    ["a/\uffee.", "a/\u{1f600}."],
  ])("knows that %j … are in order, and the reverse is not", (...paths) => {
    expect(areProper(...paths)).toBe(true);
    expect(areProper(...[...paths].reverse())).toBe(false);
  });

  it("returns the same for any manifest as reading entry by entry", () => {
    const component = fc.oneof(
      fc.constantFrom("a", "b", "c", ".", "..", "", " ", "d:", "ä", "層", "😀", "\uffee"),
      fc.string(),
    );
    const record = fc.record({
      path: fc.array(component, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/")),
      size: fc.oneof(fc.nat(9999), fc.maxSafeNat()),
      modified: fc.constantFrom("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", ""),
      isDir: fc.boolean(),
      chunks: fc.array(fc.constantFrom(CHUNK_ID, "f".repeat(32), "x"), { maxLength: 3 }),
      packOffset: fc.option(fc.nat(), { nil: undefined }),
      mtime: fc.option(
        fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
        { nil: undefined },
      ),
      mode: fc.option(fc.nat(0o7777), { nil: undefined }),
      extra: fc.constant(NO_EXTRA_KEYS),
    });
    fc.assert(
      fc.property(fc.uniqueArray(record, { maxLength: 12, selector: ({ path }) => path }), (records) => {
        const bytes = encodeManifest({ ...emptyManifest("encrypted"), entries: entryList(records) });
        expect(outcome(bytes, cutEntries)).toEqual(outcome(bytes, undefined));
      }),
      { numRuns: 300 },
    );
  });

  it.each([
    ["that end and begin within a character", ["a/x\xc3", "\xa4b"]],
    ["that are longer than need be", ["a/\xc0\xaf.."]],
    ["with half a pair", ["a/\xed\xa0\x80."]],
  ])("returns the same for paths that are not UTF-8: %s", (_, paths) => {
    const text = paths.map((path) => USUAL_ENTRY.replace("a/b.txt", path)).join(",");
    const whole = new TextDecoder().decode(encodeManifest(emptyManifest("encrypted")));
    const bytes = Uint8Array.from(whole.replace('"entries":[]', `"entries":[${text}]`), (c) => c.charCodeAt(0));
    expect(cutEntries(bytes)).toBeUndefined();
    expect(outcome(bytes, cutEntries)).toEqual(outcome(bytes, undefined));
  });

  it.each([
    ["in front", `{"x":{"entries":[${USUAL_ENTRY}]},`, "{"],
    ["in front, alone", `{"x":{"entries":[${USUAL_ENTRY}]},"y":{`, "{"],
    ["behind", "{", `{"x":{"entries":[${USUAL_ENTRY}]},`],
    ["as a text", '{"x":"\\"entries\\":[]",', "{"],
    ["twice", `{"entries":[${USUAL_ENTRY}],`, "{"],
    ["far behind", `{"x":"${"x".repeat(5000)}",`, "{"],
  ])("returns the same if there is another list of that name: %s", (_, instead, other) => {
    const manifest = { ...emptyManifest("encrypted"), entries: entryList([entry({ path: "c/d", mode: 1 })]) };
    const text = new TextDecoder().decode(encodeManifest(manifest));
    for (const changed of [text.replace("{", instead), text.replace('"chunks":{', `"z":${other}"y":1},"chunks":{`)]) {
      expect(outcome(encodeUtf8(changed), cutEntries)).toEqual(outcome(encodeUtf8(changed), undefined));
    }
  });

  it("returns the same for a manifest with any byte changed", () => {
    const records = ["a", "a/b", "b/ä.txt", "c"].map((path, i) =>
      entry({ path, isDir: path === "a", chunks: i === 1 ? [CHUNK_ID] : [], mtime: "2026-01-01T00:00:00.5Z", mode: i }),
    );
    const bytes = encodeManifest({ ...emptyManifest("encrypted"), entries: entryList(records) });
    for (let at = bytes.indexOf(0x5b); at < bytes.byteLength; at++) {
      const characters = ['"', ",", "}", "]", "0", "/", "\\", " "].map((text) => text.charCodeAt(0));
      for (const other of [...characters, 0x80, 0xa4, 0xc3, 0xe2, 0xf0, 0xff]) {
        const changed = bytes.slice();
        changed[at] = other;
        expect(outcome(changed, cutEntries)).toEqual(outcome(changed, undefined));
      }
      const cut = bytes.slice(0, at);
      expect(outcome(cut, cutEntries)).toEqual(outcome(cut, undefined));
    }
  });
});
