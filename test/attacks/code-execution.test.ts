import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { keyed, pickles, withOrigin } from "../builders/crafted-files.ts";
import { openBytes, refusalOf } from "./open-bytes.ts";

const MARK = join(tmpdir(), "tare-was-tricked");

describe("nothing in a file is ever run", () => {
  test.each(["model.bin", "model.pt", "model.safetensors", "model.gguf", "pickle"])(
    "a pickle named %s is refused, never read",
    async (name) => {
      const [protocol0, ...withMark] = pickles(`touch ${MARK}`);
      for (const bytes of withMark) expect((await refusalOf(bytes, name)).code).toBe("unsupported/foreign.pickle");
      // The oldest protocol has no mark of its own: it is text.
      expect((await refusalOf(protocol0 as Bytes, name)).code).toBe("unsupported/foreign.text");
      expect(existsSync(MARK)).toBe(false);
    },
  );
  test("zips, compressed files and scripts that may hold pickles are refused by name", async () => {
    const wrapped: readonly (readonly [Bytes, string])[] = [
      [concatBytes([Uint8Array.of(0x50, 0x4b, 3, 4), new Uint8Array(60)]), "unsupported/foreign.zip"],
      [
        concatBytes([Uint8Array.of(0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c), new Uint8Array(60)]),
        "unsupported/foreign.compressed",
      ],
      [concatBytes([Uint8Array.of(0x1f, 0x8b, 8), new Uint8Array(60)]), "unsupported/foreign.compressed"],
      [encodeUtf8("#!/bin/sh\ntouch x\n"), "unsupported/foreign.other"],
    ];
    for (const [bytes, code] of wrapped) expect((await refusalOf(bytes, "model.safetensors")).code).toBe(code);
  });
  test("templates, code and constructors in metadata are text", async () => {
    const template = "{{ ''.__class__.__mro__[1].__subclasses__() }}";
    const { container } = await openBytes(keyed("tokenizer.chat_template", template));
    if (container.kind !== "model") throw new Error("not a model");
    expect(container.metadata.text("tokenizer.chat_template")).toBe(template);
  });
  test("what tare.origin asks for is data as well", async () => {
    const origin = JSON.stringify({
      chain: [{ format: "constructor", facts: { toString: "x" } }],
      entries: [["__proto__", "constructor", "eval", "1"]],
    });
    const { container } = await openBytes(withOrigin(origin));
    expect(container.kind).toBe("model");
  });
});
