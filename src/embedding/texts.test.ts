import { expect, test } from "vitest";
import { isTareError, type TareError } from "../base/errors.ts";
import { memorySource } from "../bytes/memory.ts";
import { paragraphsOf, parseJsonLines, parseTextLines, readTexts } from "./texts.ts";

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function lines(text: string): string[] {
  return parseTextLines(bytes(text), "texts").map((line) => line.text);
}

function caught(action: () => unknown): TareError {
  try {
    action();
  } catch (error) {
    if (isTareError(error)) return error;
    throw error;
  }
  throw new Error("Cannot go on: the call must throw");
}

test("parseTextLines() ends texts only at LF and CR LF, and keeps empty lines as texts", () => {
  expect(lines("")).toEqual([]);
  expect(lines("one")).toEqual(["one"]);
  expect(lines("one\n")).toEqual(["one"]);
  expect(lines("one\n\nthree\n\n")).toEqual(["one", "", "three", ""]);
  expect(lines("one\r\ntwo\r\n\r\n")).toEqual(["one", "two", ""]);
  expect(lines("a\rb\vc\u2028d\u0085e\nf\r")).toEqual(["a\rb\vc\u2028d\u0085e", "f\r"]);
});

test("parseTextLines() leaves out a byte order mark only before the first line", () => {
  expect(lines("\ufeffone\n\ufefftwo")).toEqual(["one", "\ufefftwo"]);
});

test("parseTextLines() names line and byte of invalid UTF-8", () => {
  const error = caught(() => parseTextLines(Uint8Array.of(0x61, 0x0a, 0x62, 0xff, 0x0a), "notes.txt"));
  expect(error.code).toBe("format/texts.utf8");
  expect(error.at).toEqual({ source: "notes.txt", offset: 3, path: "line 2" });
});

test("parseTextLines() names the first byte of an incomplete character", () => {
  for (const rest of [[], [0x41], [0xac]]) {
    const error = caught(() => parseTextLines(Uint8Array.of(0x61, 0x0a, 0x62, 0xe2, ...rest, 0x0a, 0x63), "notes.txt"));
    expect(error.message).toContain("found the byte e2");
    expect(error.at.offset).toBe(3);
  }
});

test("lines that are too long or too many for memory are refused by line and byte before decoding", () => {
  const long = new Uint8Array((16 << 20) + 3).fill(0x61);
  long[1] = 0x0a;
  const tooLong = caught(() => parseTextLines(long, "one.txt"));
  expect(tooLong).toMatchObject({ code: "limit/texts.line", at: { source: "one.txt", offset: 2, path: "line 2" } });
  const feeds = new Uint8Array(1000).fill(0x0a);
  expect(parseTextLines(feeds, "feeds.txt")).toHaveLength(1000);
  for (const parse of [parseTextLines, parseJsonLines]) {
    const tooMany = caught(() => parse(feeds, "feeds.txt", 1 << 16));
    expect(tooMany).toMatchObject({ code: "limit/budget", at: { source: "feeds.txt", path: "line 256" } });
  }
});

test("parseJsonLines() takes strings and objects, and keeps the numbers of lines", () => {
  const text = '"one"\n\n{"id": 7, "text": "two\\nlines"}\r\n  "three"  ';
  expect(parseJsonLines(bytes(text), "x.jsonl")).toEqual([
    { text: "one", line: 1 },
    { text: "two\nlines", line: 3 },
    { text: "three", line: 4 },
  ]);
});

test("parseJsonLines() names a line that is neither", () => {
  const broken: readonly (readonly [line: string, found: string])[] = [
    ["{", "no JSON"],
    ["[1]", "[1]"],
    ["null", "null"],
    ['{"txt": "a"}', 'without "text"'],
    ['{"text": 5}', 'a "text" that is 5'],
    ['{"__proto__": {"text": "a"}}', 'without "text"'],
  ];
  for (const [line, found] of broken) {
    const error = caught(() => parseJsonLines(bytes(`"fine"\n${line}\n`), "x.jsonl"));
    expect(error.code).toBe("format/texts.json");
    expect(error.message).toContain(found);
    expect(error.at).toEqual({ source: "x.jsonl", offset: 7, path: "line 2" });
  }
});

test("paragraphs are what empty lines separate, wrapped lines joined, under the number of their first line", async () => {
  const paragraphs = (text: string, name = "notes.md"): Promise<unknown> =>
    readTexts(memorySource(bytes(text), name), { unit: "paragraph" });
  expect(await paragraphs("\n# Tides\n\nThe moon\n  pulls.\r\n \t\nlast")).toEqual([
    { line: 2, text: "# Tides" },
    { line: 4, text: "The moon pulls." },
    { line: 7, text: "last" },
  ]);
  expect(await paragraphs("\n \n")).toEqual([]);
  expect(await paragraphs('"a\\nb\\n\\nc"\n"d"\n', "t.jsonl")).toEqual([
    { line: 1, text: "a b" },
    { line: 1, text: "c" },
    { line: 2, text: "d" },
  ]);
  expect(paragraphsOf([{ text: "a\n\nb", line: 9 }])).toEqual([
    { text: "a", line: 9 },
    { text: "b", line: 9 },
  ]);
});
