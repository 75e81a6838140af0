import { describe, expect, test } from "vitest";
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
    expect(error.message).toMatch(/^Cannot open "x": [a-z]/);
  });
  test("errnoOf() knows system errors from everything else", () => {
    expect(errnoOf(fault("ENOENT"))).toBe("ENOENT");
    expect(errnoOf(fault("source/io"))).toBeUndefined();
    expect(errnoOf(fault("ERR_OUT_OF_RANGE"))).toBeUndefined();
    expect(errnoOf("ENOENT")).toBeUndefined();
  });
});
