import { describe, expect, it } from "vitest";
import { emptyManifest } from "../../../../test/builders/crafted-vault.ts";
import { FormatError, LimitError, TareError, UnsupportedError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { atOnce } from "../../../base/turns.ts";
import { decodeManifest, encodeManifest } from "./codec.ts";
import { NO_EXTRA_KEYS } from "./field-reader.ts";
import type { Manifest } from "./records.ts";
import { entryList } from "./records.ts";

const ID = "79727a50a8d1a7eaadf052362b70b1ee";
const MANIFEST: Manifest = {
  ...emptyManifest("encrypted"),
  entries: entryList([
    { path: "ü/層.md", size: 5, modified: "then", isDir: false, chunks: [ID], packOffset: 8, extra: NO_EXTRA_KEYS },
    { path: "dir", size: 0, modified: "", isDir: true, chunks: [], mode: 0o755, extra: NO_EXTRA_KEYS },
  ]),
  chunks: new Map([
    [
      ID,
      {
        id: ID,
        blockIndex: 0,
        dataOffset: 0,
        blockLen: 41,
        plaintextLen: 13,
        compressedLen: 13,
        cipherHash: "00".repeat(32),
        storedRaw: true,
        extra: NO_EXTRA_KEYS,
      },
    ],
  ]),
};
const TEXT = new TextDecoder().decode(encodeManifest(MANIFEST));
const at = { source: "vault", offset: 2000 };

function decode(text: string): Manifest {
  return atOnce(decodeManifest(encodeUtf8(text), at));
}

/** With records in place of the list that creates them. */
function unfolded(manifest: Manifest): object {
  return { ...manifest, entries: manifest.entries.records() };
}

function failure(text: string): TareError {
  try {
    decode(text);
  } catch (error) {
    if (error instanceof TareError) return error;
    throw error;
  }
  throw new Error("was accepted");
}

it("encodeManifest() writes the reference's key order, sorts by UTF-8 bytes, and decodes to the same", () => {
  expect(TEXT).toContain(
    '"entries":[{"path":"dir","size":0,"modified":"","is_dir":true,"chunks":[],"mode":493},{"path":"ü/層.md","size":5,"modified":"then","is_dir":false,"chunks":["79727a50a8d1a7eaadf052362b70b1ee"],"pack_offset":8}]',
  );
  expect(TEXT).toContain('"stored_raw":true}}}');
  const decoded = decode(TEXT);
  expect(decoded.entries.records()).toEqual([...MANIFEST.entries.records()].reverse());
  expect(decoded.chunks).toEqual(MANIFEST.chunks);
  expect(new TextDecoder().decode(encodeManifest(decoded))).toBe(TEXT);
});

describe("decodeManifest()", () => {
  it.each([
    ["white space and a line end", ` ${TEXT} \n`],
    ["null for what may be absent", TEXT.replace('"pack_offset":8', '"pack_offset":null')],
    ["stored_raw false", TEXT.replace('"stored_raw":true', '"stored_raw":false')],
    ["a negative level", TEXT.replace('"level":9', '"level":-5')],
    ["no level and no bounds", TEXT.replace(',"level":9', "").replace(/,"bounds":\{[^}]*\}/, "")],
  ])("accepts %s", (_, text) => {
    expect(decode(text).entries).toHaveLength(2);
  });

  it("keeps unknown keys of every record, and encodes them again", () => {
    const extended = TEXT.replace('{"format":3', '{"x":{"a":[1,2.5]},"format":3')
      .replace('"path":"dir"', '"owner":"me","path":"dir"')
      .replace('"block_index":0', '"checked":null,"block_index":0')
      .replace('"wrappers":{', '"wrappers":{"ecc":{"algorithm_id":"rs"},')
      .replace('"algorithm_id":"zstd"', '"window":27,"algorithm_id":"zstd"');
    const again = new TextDecoder().decode(encodeManifest(decode(extended)));
    for (const kept of [
      '"x":{"a":[1,2.5]}',
      '"owner":"me"',
      '"checked":null',
      '"ecc":{"algorithm_id":"rs"}',
      '"window":27',
    ])
      expect(again).toContain(kept);
    expect(unfolded(decode(again))).toEqual(unfolded(decode(extended)));
  });

  it("treats our keys with another type as foreign keys", () => {
    const { entries, generation, extra } = decode(
      TEXT.replace('"mode":493', '"mode":"rwx","mtime":7').replace('{"format"', '{"generation":"two","format"'),
    );
    expect(entries.record(0)).toMatchObject({ mode: undefined, mtime: undefined });
    expect(entries.record(0).extra).toEqual(
      new Map([
        ["mode", '"rwx"'],
        ["mtime", "7"],
      ]),
    );
    expect([generation, extra.get("generation")]).toEqual([undefined, '"two"']);
  });

  it.each([
    ["a missing key", TEXT.replace('"size":5,', ""), "format/aerovault.manifest", "entries[1].size"],
    ["a float", TEXT.replace('"size":5', '"size":5.0'), "format/aerovault.manifest", "entries[1].size"],
    ["an exponent", TEXT.replace('"size":5', '"size":3e5'), "format/aerovault.manifest", "entries[1].size"],
    ["a negative number", TEXT.replace('"size":5', '"size":-1'), "format/aerovault.manifest", "entries[1].size"],
    ["a number in a string", TEXT.replace('"size":5', '"size":"5"'), "format/aerovault.manifest", "entries[1].size"],
    [
      "a number as a flag",
      TEXT.replace('"is_dir":true', '"is_dir":1'),
      "format/aerovault.manifest",
      "entries[0].is_dir",
    ],
    [
      "a key that comes twice",
      TEXT.replace('"size":5', '"size":5,"size":5'),
      "format/json.duplicate-key",
      "entries[1].size",
    ],
    [
      "a chunk that comes twice",
      TEXT.replace('"chunks":{', `"chunks":{"${ID}":${recordText()},`),
      "format/json.duplicate-key",
      `chunks["${ID}"]`,
    ],
    [
      "entries that are no list",
      TEXT.replace(/"entries":\[.*\],"chunks":\{/, '"entries":{},"chunks":{'),
      "format/aerovault.manifest",
      "entries",
    ],
  ])("refuses %s", (_, text, code, path) => {
    const error = failure(text);
    expect(error).toBeInstanceOf(FormatError);
    expect(error).toMatchObject({ code, at: { source: "vault", path } });
    expect(error.at.offset).toBeGreaterThan(2000);
  });

  it.each([
    ["a byte order mark", `\ufeff${TEXT}`],
    ["text behind the end", `${TEXT}x`],
    ["a leading zero", TEXT.replace('"size":5', '"size":05')],
    ["an array", "[]"],
    ["nothing", ""],
  ])("refuses %s", (_, text) => {
    expect(failure(text)).toBeInstanceOf(FormatError);
  });

  it("refuses numbers above 2^53 - 1 instead of rounding them", () => {
    const error = failure(TEXT.replace('"size":5', '"size":9007199254740993'));
    expect(error).toBeInstanceOf(LimitError);
    expect(error).toMatchObject({ code: "limit/integer", at: { path: "entries[1].size" } });
    expect(decode(TEXT.replace('"size":5', '"size":9007199254740991')).entries.size(1)).toBe(2 ** 53 - 1);
  });

  it("reports another version of the manifest before it checks the rest", () => {
    const error = failure(TEXT.replace('{"format":3', '{"format":4,"entries":7'));
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.code).toBe("unsupported/aerovault.manifest");
  });
});

function recordText(): string {
  return /"chunks":\{"[0-9a-f]+":(\{.*\})\}\}$/.exec(TEXT)?.[1] ?? "";
}
