import { describe, expect, test } from "vitest";
import { at, formatRoute, parseRoute } from "./route.ts";

describe("links", () => {
  test.each([
    "#url=https://host/a/model.gguf",
    "#url=https://host/m.gguf&tensor=blk.0.attn_q.weight",
    "#url=https://host/v.aerovault&inside=models/a.gguf&inside=b.aero&view=layout",
    "#url=https://host/m.aero&view=hex&part=2&offset=4096",
    "#url=https://host/a.gguf&allow=https://cdn.host&view=compare&with=https://host/b.gguf",
    "#view=metadata",
  ])("%s comes back unchanged", (link) => {
    expect(formatRoute(parseRoute(link))).toBe(link);
  });

  test("names with characters that links use survive", () => {
    const route = { ...parseRoute(""), url: "https://host/a b&c=d#e.gguf", tensor: "层 & 权重=1" };
    expect(parseRoute(formatRoute(route))).toMatchObject({ url: route.url, tensor: route.tensor, view: "tensors" });
  });

  test("invalid values are left out", () => {
    expect(parseRoute("#view=nothing&offset=-1&part=1e3")).toMatchObject({ view: "overview" });
    expect(parseRoute("#offset=99999999999999999").offset).toBeUndefined();
  });

  test("another page keeps the opened content and drops the rest", () => {
    const route = parseRoute("#url=https://host/v&inside=a&tensor=t&offset=7");
    expect(at(route, { view: "layout" })).toEqual({ url: "https://host/v", inside: ["a"], allow: [], view: "layout" });
  });
});
