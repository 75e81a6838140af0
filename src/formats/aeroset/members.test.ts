import { expect, test } from "vitest";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { aerosetMembers } from "./read.ts";

const CONTEXT = { limits: {}, name: "set.json", engine: portableEngine() };

const SET = `{
  "base_url": "https://example.org/m", "license": "MIT", "large": 12345678901234567890,
  "parts": [ {"path": "https://example.org/a/p0.aero", "shards": [0], "mirror": "x"}, {"shards": [1], "path": "p1.aero"} ],
  "global_tidx": {"path": "index.aero"}
}`;

test("aerosetMembers() changes paths and nothing else of a JSON with keys that the specification does not name", async () => {
  const { index } = await aerosetMembers(memorySource(encodeUtf8(SET), "https://example.org/m/set.json"), CONTEXT);
  const text = new TextDecoder().decode(index?.renamed?.(["p0.aero", "b/p1.aero", "index.aero"]));
  expect(text).toBe(
    SET.replace("https://example.org/a/p0.aero", "p0.aero")
      .replace('"https://example.org/m"', '""')
      .replace('"p1.aero"', '"b/p1.aero"'),
  );
});
