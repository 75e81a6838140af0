import { describe, expect, test } from "vitest";
import { labelOf, locateFile, type SetOrigin } from "./parts.ts";

const AT = { source: "set.json", offset: 0, path: "parts[0].path" };
const FOLDER: SetOrigin = { from: "folder" };
const ADDRESS: SetOrigin = { from: "address" };
const based = (from: SetOrigin["from"], baseUrl: string): SetOrigin => ({ from, baseUrl });
const BASE = "https://cdn.example/models/m";

describe("locateFile()", () => {
  test.each([
    ["a relative path is a sibling", "part-000.aero", FOLDER, { kind: "sibling", name: "part-000.aero" }],
    ["a folder below counts as beside", "sub/x.aero", ADDRESS, { kind: "sibling", name: "sub/x.aero" }],
    ["./ changes nothing", "./x.aero", FOLDER, { kind: "sibling", name: "x.aero" }],
    [
      "a full address is used as it is",
      "https://h.example/x?s=1",
      FOLDER,
      { kind: "url", url: "https://h.example/x?s=1" },
    ],
    ["whatever the case of its scheme", "HTTP://h.example/x", ADDRESS, { kind: "url", url: "http://h.example/x" }],
    ["base_url is a folder", "x.aero", based("address", BASE), { kind: "url", url: `${BASE}/x.aero` }],
    ["with or without its slash", "x.aero", based("address", `${BASE}/`), { kind: "url", url: `${BASE}/x.aero` }],
    ["its query goes along", "x.aero", based("address", `${BASE}?sig=1`), { kind: "url", url: `${BASE}/x.aero?sig=1` }],
    [
      "a path with a query of its own keeps that",
      "x.aero?v=2",
      based("address", `${BASE}?sig=1`),
      { kind: "url", url: `${BASE}/x.aero?v=2` },
    ],
    [
      "to another host the query does not go",
      "//evil.example/x",
      based("address", `${BASE}?sig=1`),
      { kind: "url", url: "https://evil.example/x" },
    ],
    [
      "paths join by RFC 3986",
      "../x.aero",
      based("address", BASE),
      { kind: "url", url: "https://cdn.example/models/x.aero" },
    ],
    ["from the root too", "/x.aero", based("address", BASE), { kind: "url", url: "https://cdn.example/x.aero" }],
    [
      "in a folder a sibling comes first",
      "x.aero",
      based("folder", BASE),
      { kind: "sibling", name: "x.aero", elsewhere: `${BASE}/x.aero` },
    ],
    [
      "unless no sibling can have that name",
      "../x",
      based("folder", BASE),
      { kind: "url", url: "https://cdn.example/models/x" },
    ],
  ] as const)("%s", (_, path, origin, place) => {
    expect(locateFile(path, origin, AT)).toEqual(place);
  });

  test.each([
    ["../x.aero", FOLDER, "source/resolver.escape"],
    ["a/../../x.aero", FOLDER, "source/resolver.escape"],
    ["/etc/passwd", FOLDER, "source/resolver.escape"],
    ["//evil.example/x", FOLDER, "source/resolver.escape"],
    ["//evil.example/x", ADDRESS, "source/resolver.escape"],
    ["..\\x.aero", FOLDER, "source/resolver.escape"],
    ["file:///etc/passwd", FOLDER, "format/aeroset.address"],
    ["FILE:///etc/passwd", based("address", BASE), "format/aeroset.address"],
    ["C:\\x.aero", FOLDER, "format/aeroset.address"],
    ["data:,x", ADDRESS, "format/aeroset.address"],
    ["https://", FOLDER, "format/aeroset.address"],
    ["x.aero", based("address", "file:///etc"), "format/aeroset.address"],
    ["x.aero", based("folder", "cdn.example/m"), "format/aeroset.address"],
  ])("refuses %s (%o)", (path, origin, code) => {
    expect(() => locateFile(path, origin, AT)).toThrow(expect.objectContaining({ code }));
  });
});

test("labelOf() hides the credentials and query of an address", () => {
  expect(labelOf("https://user:pw@h.example/x?sig=secret")).toBe("https://h.example/x?…");
  expect(labelOf("sub/part-000.aero")).toBe("sub/part-000.aero");
});
