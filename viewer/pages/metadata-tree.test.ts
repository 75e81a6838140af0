import { describe, expect, test } from "vitest";
import { arrayValue, Metadata, stringValue } from "../../src/model/metadata.ts";
import { metadataNodes, searchMetadata } from "./metadata-tree.ts";

const tokens = arrayValue(
  Array.from({ length: 20_000 }, (_, i) => stringValue(`token ${i}`)),
  "string",
);
const metadata = new Metadata([
  { key: "name", value: stringValue("a model") },
  { key: "tokens", value: tokens },
  { key: "nested", value: { type: "map", entries: [{ key: "deep", value: arrayValue([stringValue("found")]) }] } },
]);
const keys = (path: number[], start = 0, end = 10): string[] =>
  metadataNodes(metadata, { path, start, end }).map(({ key, text }) => `${key}=${text}`);

describe("metadata as a tree", () => {
  test("members come by position, and only the requested ones", () => {
    expect(keys([])).toEqual([
      "name=a model",
      "tokens=[token 0, token 1, token 2, token 3, token 4, token 5, …]",
      "nested=deep",
    ]);
    expect(keys([1], 19_998, 20_010)).toEqual(["19998=token 19998", "19999=token 19999"]);
    expect(keys([2, 0])).toEqual(["0=found"]);
    expect(keys([7, 1])).toEqual([]);
  });

  test("a long text is short in the list and complete when opened", () => {
    const long = new Metadata([{ key: "template", value: stringValue("x".repeat(500)) }]);
    const [line] = metadataNodes(long, { path: [], start: 0, end: 1 });
    expect(line?.text).toHaveLength(161);
    expect(metadataNodes(long, { path: [0], start: 0, end: 1 })[0]?.text).toHaveLength(500);
  });

  test("a search finds keys and values, in lists and maps, and counts the matches it does not show", async () => {
    const { signal } = new AbortController();
    expect((await searchMetadata(metadata, "FOUND", signal)).nodes).toMatchObject([
      { key: "nested.deep[0]", path: [2, 0, 0] },
    ]);
    expect((await searchMetadata(metadata, "deep", signal)).nodes).toMatchObject([{ key: "nested.deep" }]);
    const many = await searchMetadata(metadata, "token 1", signal);
    expect(many.nodes.length + many.more).toBe(11_111);
    expect(many.nodes).toHaveLength(200);
  });

  test("a cancelled search ends", async () => {
    const controller = new AbortController();
    const search = searchMetadata(metadata, "x", controller.signal);
    controller.abort();
    await expect(search).rejects.toThrow();
  });
});
