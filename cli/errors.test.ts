import picocolors from "picocolors";
import { describe, expect, it } from "vitest";
import { FormatError, UsageError } from "../src/base/errors.ts";
import { describeError, renderError } from "./errors.ts";

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

describe("describeError()", () => {
  it("has one shape for every error", () => {
    expect(describeError(new TypeError("x is not a function"))).toMatchObject({ type: "error", code: "internal/bug" });
    expect(describeError(new DOMException("aborted", "AbortError"))).toMatchObject({ code: "usage/interrupted" });
    const error = new FormatError("format/empty", "m", { source: "s" });
    expect(describeError(error)).toEqual({ type: "error", code: "format/empty", message: "m", at: { source: "s" } });
  });
});
