import { describe, expect, it } from "vitest";
import { FormatError, SourceError, UnsupportedError, UsageError } from "../src/base/errors.ts";
import { exitCodeOf, exitCodeOfFindings } from "./exit-codes.ts";

const at = { source: "x" };

describe("exitCodeOf()", () => {
  it.each([
    [new FormatError("format/empty", "m", at), 4],
    [new UnsupportedError("unsupported/unknown", "m", at), 6],
    [new UnsupportedError("unsupported/lossy", "m", at), 13],
    [new SourceError("source/io", "m", at), 8],
    [new SourceError("source/not-found", "m", at), 9],
    [new UsageError("usage/tensor-not-found", "m", at), 9],
    [new UsageError("usage/entry-not-found", "m", at), 9],
    [new UsageError("usage/password.wrong", "m", at), 11],
    [new UsageError("usage/exists", "m", at), 2],
    [new DOMException("This operation was aborted", "AbortError"), 130],
    [new TypeError("boom"), 1],
    ["a string", 1],
  ])("%o", (error, code) => {
    expect(exitCodeOf(error)).toBe(code);
  });
});

describe("exitCodeOfFindings()", () => {
  const finding = (code: string, severity = "error") => ({ code, severity });

  it("is the class of the most serious error", () => {
    expect(exitCodeOfFindings([finding("integrity/x"), finding("format/y")])).toBe(4);
    expect(exitCodeOfFindings([finding("unsupported/x"), finding("integrity/x")])).toBe(5);
    expect(exitCodeOfFindings([finding("integrity/signature.missing"), finding("integrity/x")])).toBe(5);
    expect(exitCodeOfFindings([finding("integrity/signature.untrusted"), finding("source/io")])).toBe(12);
  });

  it("is 0 for warnings and notes", () => {
    expect(exitCodeOfFindings([finding("format/x", "warning"), finding("integrity/x", "note")])).toBe(0);
  });
});
