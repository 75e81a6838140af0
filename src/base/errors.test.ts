import { describe, expect, it } from "vitest";
import { namedSystemError, SYSTEM_ERRORS, systemError } from "./errors.ts";

/** An error as node:fs throws it. */
function thrown(code: string, syscall: string, path?: string): Error {
  return Object.assign(new Error(`${code}: raw, ${syscall}`), { code, syscall, errno: -1, ...(path ? { path } : {}) });
}

describe("SYSTEM_ERRORS", () => {
  it.each(Object.keys(SYSTEM_ERRORS))("%s has its own sentence", (errno) => {
    const { message, code } = systemError(errno, "Cannot open", { source: "x" });
    expect(message).toMatch(/^Cannot open: [a-z][a-z -]+$/);
    expect(code).toMatch(/^(source|usage)\//);
  });
});

describe("namedSystemError()", () => {
  it("names the action and the file", () => {
    const cases = [
      [thrown("EACCES", "open", "/a"), 'Cannot open "/a": permission denied'],
      [thrown("ENOSPC", "write"), "Cannot write a file: no space left"],
      [thrown("EIO", "scandir", "/a"), 'Cannot list "/a": the disk reported an error'],
      [thrown("EROFS", "mkdir", "/a"), 'Cannot make "/a": the file system is read-only'],
      [thrown("ENOENT", "spawn sh"), "Cannot run a file: no such file"],
      [thrown("EWHATEVER", "toString", "/a"), 'Cannot use "/a": the system says EWHATEVER'],
    ] as const;
    for (const [error, message] of cases) expect(namedSystemError(error)).toMatchObject({ message, cause: error });
  });
  it("leaves everything else alone", () => {
    for (const other of [new TypeError("x"), thrown("ERR_INVALID_ARG_TYPE", "open"), undefined, "ENOENT"])
      expect(namedSystemError(other)).toBeUndefined();
  });
});
