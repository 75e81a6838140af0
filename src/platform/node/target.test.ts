import { expect, test } from "vitest";
import { parseTarget } from "./target.ts";

test.each([
  ["model.gguf", { outer: "model.gguf", kind: "path", inner: [] }],
  ["-", { outer: "-", kind: "stdin", inner: [] }],
  ["https://host/m.gguf?x=1", { outer: "https://host/m.gguf?x=1", kind: "http", inner: [] }],
  ["v.aerovault::models/a.gguf", { outer: "v.aerovault", kind: "path", inner: ["models/a.gguf"] }],
  ["http://[::1]:8080/v.aerovault::a::b", { outer: "http://[::1]:8080/v.aerovault", kind: "http", inner: ["a", "b"] }],
  ["s3://bucket/key", { outer: "s3://bucket/key", kind: "s3", inner: [] }],
  ["ftp://host/key", { outer: "ftp://host/key", kind: "other-scheme", inner: [] }],
  ["c:/models/x.gguf", { outer: "c:/models/x.gguf", kind: "path", inner: [] }],
])("parseTarget(%s) tells place and inner path apart", (text, expected) => {
  expect(parseTarget(text)).toEqual(expected);
});
