import { describe, expect, test } from "vitest";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { gguf } from "../../src/formats/gguf/index.ts";
import { planConversion, writeConversion } from "../../src/operations/convert.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { conversionOptions, openBytes } from "../attacks/open-bytes.ts";
import { buildGguf, byteTensor } from "../builders/gguf.ts";
import { WRITERS } from "../builders/loaded-formats.ts";
import { patternBytes } from "../builders/safetensors.ts";
import { convertBytes } from "../contracts/format-contract.ts";

/** What fuzzing has found, cut down to what matters; every one once broke the promise. */
describe("inputs that fuzzing found", () => {
  test("an empty tensor that stands on the place of another one", async () => {
    // In the order of the data it comes behind the tensor whose place it shares.
    const tensors = [byteTensor("a", 8, 0), byteTensor("b", 8, 32), byteTensor("empty", 0, 0)];
    const bytes = buildGguf({ tensors, data: patternBytes(64).fill(0, 8, 32).fill(0, 40, 64) });
    const opened = await openBytes(bytes);
    for (const target of WRITERS) {
      const conversion = planConversion(opened, target, conversionOptions("out"));
      await writeConversion(conversion, memoryOutput("out"), { engine: portableEngine() });
    }
    expect(await convertBytes(opened, gguf)).toEqual(bytes);
  });
});
