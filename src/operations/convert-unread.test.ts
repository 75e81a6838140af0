import { expect, test } from "vitest";
import { buildAero, smallAero } from "../../test/builders/aero.ts";
import { READERS, writerById } from "../../test/builders/loaded-formats.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memorySource } from "../bytes/memory.ts";
import { openSource } from "../open.ts";
import { planConversion } from "./convert.ts";

test("planConversion() refuses to drop metadata that could not be read", async () => {
  const broken = { fourcc: "MJSN", name: "metadata.json", content: encodeUtf8('{"a":1,"a":2}') };
  const opened = await openSource(memorySource(buildAero({ chunks: [broken, ...smallAero().slice(1)] }), "m.aero"));
  const target = writerById("safetensors");
  const options = { name: "m.safetensors", formats: READERS };
  const refusal = expect.objectContaining({
    code: "unsupported/lossy",
    message: expect.stringContaining("metadata.json"),
  });
  expect(() => planConversion(opened, target, options)).toThrow(refusal);
  const { plan } = planConversion(opened, target, { ...options, allowLossy: "allow-lossy" });
  expect(plan.losses).toEqual([{ name: "metadata.json", reason: "its metadata cannot be read" }]);
});
