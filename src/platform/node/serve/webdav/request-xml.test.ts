import { describe, expect, test } from "vitest";
import { encodeUtf8 } from "../../../../base/text.ts";
import { BadRequest, type PropertyQuery, parsePropertyQuery } from "./request-xml.ts";

const parse = (text: string): PropertyQuery => parsePropertyQuery(encodeUtf8(text));
const dav = (...locals: string[]): object[] => locals.map((local) => ({ namespace: "DAV:", local }));

describe("parsePropertyQuery() reads", () => {
  test.each([
    ["", { kind: "all", also: [] }],
    ['<propfind xmlns="DAV:"><allprop/></propfind>', { kind: "all", also: [] }],
    [
      '\ufeff<?xml version="1.0" encoding="UTF-8"?>\n<!-- a --><D:propfind xmlns:D="DAV:"><D:propname/></D:propfind>\n<?pi x?>',
      { kind: "names" },
    ],
    [
      "<D:propfind xmlns:D='DAV:'><D:allprop/><D:include><D:supportedlock/></D:include></D:propfind>",
      { kind: "all", also: dav("supportedlock") },
    ],
    [
      '<D:propfind xmlns:D="DAV:"><D:prop><D:getetag/><D:displayname a="&#x41;&amp;">x<![CDATA[<y>]]></D:displayname></D:prop></D:propfind>',
      { kind: "named", names: dav("getetag", "displayname") },
    ],
    [
      '<a:propfind xmlns:a="DAV:"><a:prop xmlns="urn:x"><other/><a:resourcetype xmlns:a="urn:&lt;y"/><none xmlns=""/></a:prop></a:propfind>',
      {
        kind: "named",
        names: [
          { namespace: "urn:x", local: "other" },
          { namespace: "urn:<y", local: "resourcetype" },
          { namespace: "", local: "none" },
        ],
      },
    ],
    // What a later version adds does not matter (RFC 4918 §17).
    [
      '<D:propfind xmlns:D="DAV:" xmlns:x="urn:x" x:new="1"><x:new><D:prop/></x:new><D:allprop/></D:propfind>',
      { kind: "all", also: [] },
    ],
  ])("%s", (text, query) => expect(parse(text)).toEqual(query));
});

const inside = (content: string): string => `<D:propfind xmlns:D="DAV:">${content}</D:propfind>`;

describe("parsePropertyQuery() refuses", () => {
  test.each([
    ["no XML", "x".repeat(100)],
    ["a document type", `<!DOCTYPE propfind>${inside("<D:allprop/>")}`],
    ["one with entities", `<!DOCTYPE l [<!ENTITY a "b">]>${inside("<D:prop>&a;</D:prop>")}`],
    ["one inside", inside("<!DOCTYPE x><D:allprop/>")],
    ["an entity without a declaration", inside("<D:prop>&a;</D:prop>")],
    ["an ampersand alone", inside("<D:prop>a & b</D:prop>")],
    ["one in an attribute", inside('<D:prop a="&b;"/>')],
    ["a reference to no character", inside("<D:prop>&#0;</D:prop>")],
    ["a reference to half a character", inside("<D:prop>&#xd800;</D:prop>")],
    ["a reference above all characters", inside("<D:prop>&#x110000;</D:prop>")],
    ["a control character", inside("<D:prop>\u0001</D:prop>")],
    ["another root", '<D:lockinfo xmlns:D="DAV:"><D:allprop/></D:lockinfo>'],
    ["the root in no namespace", "<propfind><allprop/></propfind>"],
    ["two roots", inside("<D:allprop/>") + inside("<D:allprop/>")],
    ["text around the root", `${inside("<D:allprop/>")}x`],
    ["CDATA around the root", `<![CDATA[]]>${inside("<D:allprop/>")}`],
    ["nothing asked for", inside("")],
    ["two things asked for", inside("<D:allprop/><D:propname/>")],
    ["tags that do not match", inside("<D:prop></D:allprop>")],
    ["tags that are not closed", '<D:propfind xmlns:D="DAV:"><D:prop>'],
    ["a tag without its end", inside("<D:prop")],
    ["an end with a slash", inside("<D:prop></D:prop/>")],
    ["a prefix without a namespace", inside("<x:prop/>")],
    ["a prefix of an attribute without one", inside('<D:prop x:a="1"/>')],
    ["a prefix that is taken back", inside('<D:prop xmlns:D=""/>')],
    ["another namespace for xml", inside('<D:prop xmlns:xml="urn:x"/>')],
    ["an attribute twice", inside('<D:prop a="1" a="2"/>')],
    ["an attribute without quotes", inside("<D:prop a=1/>")],
    ["a comment without its end", inside("<!-- ")],
    ["an instruction without its end", inside("<?x")],
    ["another encoding", `<?xml version="1.0" encoding="utf-16"?>${inside("<D:allprop/>")}`],
    ["a declaration behind a blank", ` <?xml version="1.0"?${inside("<D:allprop/>")}`],
    ["many levels", inside("<D:prop>".repeat(20) + "</D:prop>".repeat(20))],
    ["many names", inside(`<D:prop>${"<D:a/>".repeat(101)}</D:prop>`)],
    ["long names", inside(`<D:prop><D:${"a".repeat(8192)}/></D:prop>`)],
  ])("%s", (_, text) => expect(() => parse(text)).toThrow(BadRequest));

  test("bytes that are not UTF-8", () => {
    expect(() => parsePropertyQuery(new Uint8Array([0x3c, 0xff]))).toThrow(BadRequest);
    const utf16 = new Uint8Array(Buffer.from(`\ufeff${inside("<D:allprop/>")}`, "utf16le"));
    expect(() => parsePropertyQuery(utf16)).toThrow(BadRequest);
  });

  test("every text that is cut short or changed in one place, or reads it as a query, and throws nothing else", () => {
    const whole = `<?xml version="1.0"?><!-- c -->${inside('<D:prop xmlns="urn:x"><a b="&lt;"/><![CDATA[x]]>&#65;</D:prop>')}`;
    const variants: string[] = [];
    for (let i = 0; i < whole.length; i++) {
      variants.push(whole.slice(0, i));
      for (const other of ["<", ">", "&", '"', "/", "!", "\0", "\ud800", " "]) {
        variants.push(whole.slice(0, i) + other + whole.slice(i + 1), whole.slice(0, i) + other + whole.slice(i));
      }
    }
    for (const text of variants) {
      try {
        expect(parse(text).kind).toMatch(/^(?:all|names|named)$/);
      } catch (error) {
        expect(error).toBeInstanceOf(BadRequest);
      }
    }
  });
});
