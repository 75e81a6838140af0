import { describe, expect, test } from "vitest";
import { measureProcessorTime } from "../../../test/support/processor-time.ts";
import { childrenOf, childText, escapeXml, parseXml } from "./documents.ts";

describe("parseXml()", () => {
  test("reads elements, text and entities, and skips attributes and comments", () => {
    const text = `\ufeff<?xml version="1.0"?>\n<A x='1' y="&quot;>"><!-- <b> --><B>one &amp; &#x74;&#119;o</B><C/><B> &lt;2&gt; </B></A>\n`;
    const root = parseXml(text);
    expect(root?.name).toBe("A");
    expect(childrenOf(root, "B").map((child) => child.text)).toEqual(["one & two", " <2> "]);
    expect(childText(root, "C")).toBe("");
    expect(childText(root, "D")).toBeUndefined();
  });
  test.each([
    "",
    "plain text",
    "<A>",
    "</A>",
    "<A></B>",
    "<A/><B/>",
    "<A><B></A></B>",
    "<A",
    "<A x=1/>",
    '<!DOCTYPE A [<!ENTITY a "b">]><A>&a;</A>',
    "<A><![CDATA[x]]></A>",
    "<A>".repeat(40) + "</A>".repeat(40),
  ])("refuses %j", (text) => {
    expect(parseXml(text)).toBeUndefined();
  });
  test("keeps unknown entities, and code points that do not exist", () => {
    expect(parseXml("<A>&what; &#x110000; &constructor;</A>")?.text).toBe("&what; &#x110000; &constructor;");
  });
  test.each([
    ["a comment", `<A><!--${"x".repeat(15 << 20)}--><B>y</B></A>`],
    ["dashes in a comment", `<A><!--${"- ".repeat(7 << 20)}--><B>y</B></A>`],
    ["an attribute", `<A a="${"x".repeat(15 << 20)}"><B>y</B></A>`],
    ["a million attributes", `<A${" a=''".repeat(3 << 20)}><B>y</B></A>`],
    ["a declaration", `<?${"x".repeat(15 << 20)}?><A><B>y</B></A>`],
    ["text", `<A>${"x".repeat(15 << 20)}<B>y</B></A>`],
    ["spaces", `<A${" ".repeat(15 << 20)}><B>y</B></A>`],
  ])("needs no stack for %s of the length of the longest reply", (_, text) => {
    expect(childText(parseXml(text), "B")).toBe("y");
  });
  test("needs no stack to refuse a name or a tag without an end", () => {
    for (const text of [`<${"x".repeat(15 << 20)}`, `<A${" a=''".repeat(3 << 20)}`, `<!--${"x".repeat(15 << 20)}`]) {
      expect(parseXml(text)).toBeUndefined();
    }
  });
  test("refuses more elements than any reply has", () => {
    expect(parseXml(`<A>${"<B/>".repeat(200_000)}</A>`)?.children).toHaveLength(200_000);
    expect(parseXml(`<A>${"<B/>".repeat(300_000)}</A>`)).toBeUndefined();
    expect(parseXml(`<A>${"<!---->".repeat(300_000)}</A>`)).toBeUndefined();
  });
  test("takes time in proportion to the text", async () => {
    const { milliseconds } = await measureProcessorTime(() => {
      expect(parseXml(`<A>${"<B>x</B>".repeat(50_000)}</A>`)?.children).toHaveLength(50_000);
      for (const text of [`<A ${"a='1' ".repeat(20_000)}`, `<A>${"<".repeat(200_000)}`, `<!--${"-".repeat(200_000)}`]) {
        expect(parseXml(text)).toBeUndefined();
      }
    });
    expect(milliseconds).toBeLessThan(3000);
  });
});

describe("escapeXml()", () => {
  test("returns text that reads back unchanged", () => {
    const text = `<&>"'&amp;`;
    expect(parseXml(`<A>${escapeXml(text)}</A>`)?.text).toBe(text);
  });
});
