import picocolors from "picocolors";
import { describe, expect, it } from "vitest";
import { FormatError, UsageError } from "../src/base/errors.ts";
import { describeError, renderError, traceOf } from "./errors.ts";

const plain = picocolors.createColors(false);

describe("renderError()", () => {
  it("says what is wrong, where, and what to do", () => {
    const at = { source: "model.gguf", offset: 24, path: "metadata_kv[0].key" };
    const error = new FormatError("format/gguf.truncated", "Cannot read the key", at, { hint: "Download it again" });
    expect(renderError(error, plain)).toBe(
      "tare: Cannot read the key [format/gguf.truncated]\n" +
        "  at    model.gguf, byte 24, metadata_kv[0].key\n" +
        "  hint  Download it again\n",
    );
  });

  it("leaves out a place that is only the command line", () => {
    expect(renderError(new UsageError("usage/arguments", "Cannot run", { source: "command line" }), plain)).toBe(
      "tare: Cannot run [usage/arguments]\n",
    );
  });

  it("lets no name from a file write to the terminal", () => {
    const error = new UsageError("usage/tensor-not-found", 'Cannot find "\u001b[2J\nx"', { source: "a\u0007b" });
    expect(renderError(error, plain)).toBe(
      'tare: Cannot find "\\u001b[2J\\u000ax" [usage/tensor-not-found]\n  at    a\\u0007b\n',
    );
  });
});

describe("traceOf()", () => {
  it("hides in causes what the message hides", () => {
    const system = (path: string): Error => new Error(`ENOENT: no such file or directory, open '${path}'`);
    for (const [path, shown] of [
      ["https:/h/v?X-Amz-Signature=f00d&x=1", "open 'https:/h/v?X-Amz-Signature=…&x=1'"],
      ["http://u:PASS@h/x", "open 'http://…@h/x'"],
      ["//u:PASS@h/x", "open '//…@h/x'"],
    ] as const) {
      const cause = new Error("Cannot read", { cause: system(path) });
      const trace = traceOf(new UsageError("usage/x", `Cannot open "${path}"`, { source: path }, { cause }));
      expect(trace).toContain(`caused by Error: ENOENT: no such file or directory, ${shown}`);
      expect(trace).not.toMatch(/f00d|PASS/);
      expect(describeError(system(path)).message).not.toMatch(/f00d|PASS/);
    }
  });
});

describe("describeError()", () => {
  it("has one shape for every error", () => {
    expect(describeError(new TypeError("x is not a function"))).toMatchObject({ type: "error", code: "internal/bug" });
    expect(describeError(new DOMException("aborted", "AbortError"))).toMatchObject({ code: "usage/interrupted" });
    const error = new FormatError("format/empty", "m", { source: "s" });
    expect(describeError(error)).toEqual({ type: "error", code: "format/empty", message: "m", at: { source: "s" } });
  });
});
