import { expect, it } from "vitest";
import { TareError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { decodeDirectory, type ExtensionRow, encodeDirectory } from "./rows.ts";

const at = { source: "vault", offset: 5000 };
const options = { payloadLength: 100, maxRows: 3 };
const ROW: ExtensionRow = {
  extensionId: "demo.future",
  algorithmId: "demo",
  algorithmVersion: 1,
  critical: false,
  offset: 60,
  length: 40,
  extra: new Map([["note", '"kept"']]),
};

function decode(text: string): ExtensionRow[] {
  return decodeDirectory(encodeUtf8(text), at, options);
}

it("encodeDirectory() writes [] without rows, and rows that decode to the same", () => {
  expect(new TextDecoder().decode(encodeDirectory([]))).toBe("[]");
  const text = new TextDecoder().decode(encodeDirectory([ROW]));
  expect(text).toBe(
    '[{"extension_id":"demo.future","algorithm_id":"demo","algorithm_version":1,"critical":false,"offset":60,"length":40,"note":"kept"}]',
  );
  expect(decode(text)).toEqual([ROW]);
  expect(decode(" [ ] \n")).toEqual([]);
});

it.each([
  ["nothing", "", "format/aerovault.extension"],
  ["spaces", "  ", "format/aerovault.extension"],
  ["an object", "{}", "format/aerovault.extension"],
  ["null", "null", "format/aerovault.extension"],
  ["text behind the end", "[]x", "format/json.syntax"],
  ["a row without its id", '[{"algorithm_id":"a"}]', "format/aerovault.extension"],
  [
    "a critical row, even of a known id",
    rowText({ critical: true, extensionId: "error-correction.reed-solomon" }),
    "unsupported/aerovault.extension",
  ],
  ["a payload that ends outside", rowText({ length: 41 }), "format/aerovault.extension"],
  ["a payload that begins outside", rowText({ offset: 101, length: 0 }), "format/aerovault.extension"],
  ["an offset that would overflow", rowText().replace("60", "18446744073709551615"), "limit/integer"],
  ["an id that comes twice", `[${[ROW, ROW].map(bare).join(",")}]`, "format/aerovault.extension"],
  [
    "more rows than allowed",
    `[${["a", "b", "c", "d"].map((extensionId) => bare({ ...ROW, extensionId })).join(",")}]`,
    "limit/aerovault.extensions",
  ],
])("decodeDirectory() refuses %s", (_, text, code) => {
  expect(() => decode(text)).toThrow(TareError);
  expect(() => decode(text)).toThrow(
    expect.objectContaining({ code, at: expect.objectContaining({ source: "vault" }) }),
  );
});

function bare(row: ExtensionRow): string {
  return new TextDecoder().decode(encodeDirectory([row])).slice(1, -1);
}

function rowText(change: Partial<ExtensionRow> = {}): string {
  return `[${bare({ ...ROW, ...change })}]`;
}
