import { describe, expect, test } from "vitest";
import { printable } from "../../src/base/text.ts";
import { buildGguf, byteTensor, text } from "../builders/gguf.ts";
import { buildSafetensors, patternBytes } from "../builders/safetensors.ts";
import { scratch, tare } from "../cli/run-tare.ts";

/** Clears the screen, sets the window title, starts CSI with one C1 byte, writes the line backwards, rings, returns. */
const NAME = "w\u001b[2J\u001b]0;owned\u0007\u009b31m\u202etxet\u0008\r\nfake line\u0000";
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is looked for
const FORBIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

const gguf = () =>
  buildGguf({
    kvs: ["general.name", "general.architecture", "general.license", NAME].map((key) => ({
      key,
      type: 8,
      value: text(NAME),
    })),
    tensors: [byteTensor(NAME, 8, 0)],
    data: patternBytes(40),
  });
const safetensors = () =>
  buildSafetensors([{ name: NAME, dtype: "U8", shape: [4], bytes: patternBytes(4) }], { metadata: { [NAME]: NAME } });

describe("control characters in files never reach the terminal", () => {
  test.each([
    ["ls", []],
    ["ls", ["-l"]],
    ["inspect", []],
    ["inspect", ["--metadata"]],
    ["map", []],
    ["verify", []],
    ["stats", []],
  ])("tare %s %j", async (command, flags) => {
    const file = scratch();
    const [one, other] = [file("m.gguf", gguf()), file("m.safetensors", safetensors())];
    const runs = await Promise.all([one, other].map((path) => tare([command, path, ...flags])));
    for (const { out, err } of runs) {
      expect(out + err).not.toMatch(FORBIDDEN);
      if (command !== "verify") expect(out).toContain("w\\u001b[2J");
      expect(out.split("\n").filter((line) => line.startsWith("fake line"))).toEqual([]);
    }
  });
  test("tare ls --json is JSON with the name in it, and escapes what a terminal would obey", async () => {
    const path = scratch()("m.gguf", gguf());
    const { out } = await tare(["ls", path, "--json"]);
    expect((JSON.parse(out) as { tensors: { name: string }[] }).tensors[0]?.name).toBe(NAME);
    expect(out).not.toMatch(FORBIDDEN);
  });
  test("errors that quote a name", async () => {
    const file = scratch();
    const twice = buildGguf({ tensors: [byteTensor(NAME, 8, 0), byteTensor(NAME, 8, 32)], data: patternBytes(64) });
    const removed = buildGguf({ tensors: [{ name: NAME, dims: [1], type: 4, offset: 0 }], data: patternBytes(64) });
    for (const bytes of [twice, removed]) {
      const { code, out, err } = await tare(["ls", file("bad.gguf", bytes)]);
      expect(code).not.toBe(0);
      expect(out + err).not.toMatch(FORBIDDEN);
      expect(err).toContain("w\\u001b[2J");
    }
  });
  test("printable() shows every one of them", () => {
    expect(printable(NAME)).not.toMatch(FORBIDDEN);
    expect(printable("größe 数 🧊")).toBe("größe 数 🧊");
  });
});
