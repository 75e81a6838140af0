import { stat } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { UsageError } from "../../base/errors.ts";
import { errnoOf, fileError } from "./errors.ts";

const fault = (code: string) => Object.assign(new Error("raw"), { code });

describe("fileError()", () => {
  test.each([
    ["ENOENT", "source/not-found"],
    ["ENOTDIR", "source/not-found"],
    ["EACCES", "source/forbidden"],
    ["EPERM", "source/forbidden"],
    ["EROFS", "source/forbidden"],
    ["EISDIR", "source/is-directory"],
    ["ENOSPC", "source/no-space"],
    ["EDQUOT", "source/no-space"],
    ["EMFILE", "source/io"],
    ["EIO", "source/io"],
    ["EUNHEARDOF", "source/io"],
  ])("%s is %s", (errno, code) => {
    const error = fileError(fault(errno), 'Cannot open "x"', { source: "x", offset: 4 });
    expect(error).toMatchObject({ name: "SourceError", code, transient: false, at: { source: "x", offset: 4 } });
    expect((error as Error).message).toMatch(/^Cannot open "x": [a-z]/);
  });
  test("an output that exists is left to the user to decide", () => {
    const error = fileError(fault("EEXIST"), 'Cannot make "x"', { source: "x" });
    expect(error).toMatchObject({ name: "UsageError", code: "usage/exists" });
  });
  test.each([
    ["Unknown system error -122", "EDQUOT", "source/no-space"],
    ["Unknown system error -116", "ESTALE", "source/io"],
    ["Unknown system error -69", "EDQUOT", "source/no-space"],
    ["Unknown system error -99999", "error 99999", "source/io"],
    ["UNKNOWN", "unknown error", "source/io"],
  ])("%s, which Node has no name for, is %s", (code, errno, expected) => {
    expect(errnoOf(fault(code))).toBe(errno);
    expect(fileError(fault(code), "Cannot write", { source: "x" })).toMatchObject({ code: expected });
  });
  test.each([
    ["an abort", new DOMException("stop", "AbortError")],
    ["a mistake of ours", new TypeError("x is not a function")],
    ["one of our errors", new UsageError("usage/exists", "there", { source: "y" })],
    ["a code of Node's", fault("ERR_INVALID_ARG_VALUE")],
    ["no error at all", "ENOENT"],
  ])("%s is returned as it is", (_what, error) => {
    expect(fileError(error, "Cannot read", { source: "x" })).toBe(error);
  });
  test("a path with a NUL and a file that is too long for Node are reported as faults of the file", async () => {
    const nul = await stat("a\0b").catch((error: unknown) => error);
    expect(fileError(nul, "Cannot open", { source: "x" })).toMatchObject({ code: "source/not-found" });
    const long = fault("ERR_FS_FILE_TOO_LARGE");
    expect(fileError(long, "Cannot read", { source: "x" })).toMatchObject({ code: "source/io" });
  });
  test("errnoOf() tells system errors from all others", () => {
    expect(errnoOf(fault("ENOENT"))).toBe("ENOENT");
    expect(errnoOf(fault("source/io"))).toBeUndefined();
    expect(errnoOf(fault("ERR_OUT_OF_RANGE"))).toBeUndefined();
    expect(errnoOf("ENOENT")).toBeUndefined();
  });
});
