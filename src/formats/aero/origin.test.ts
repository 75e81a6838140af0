import { expect, test } from "vitest";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import { Metadata } from "../../model/metadata.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { AeroModel } from "./model.ts";
import { describeAero } from "./origin.ts";
import { planAero } from "./plan.ts";
import { openAero } from "./read.ts";
import { writeAero } from "./write.ts";

const engine = portableEngine();

async function written(align: number | undefined): Promise<AeroModel> {
  const tensors = [
    memoryTensor("a", "U8", [5], new Uint8Array(5)),
    memoryTensor("empty", "F32", [0, 4], new Uint8Array(0)),
    memoryTensor("b", "U8", [3], new Uint8Array(3)),
    memoryTensor("last", "F32", [0], new Uint8Array(0)),
  ];
  const plan = planAero({ metadata: new Metadata(), tensors, chain: [] }, { name: "m.aero", align });
  const output = memoryOutput("m.aero");
  await writeAero(plan, output, { engine });
  const bytes = output.files.get("m.aero") ?? new Uint8Array();
  return openAero(memorySource(bytes), { engine, limits: {} });
}

test.each([[1], [32], [128]])("describeAero() finds an alignment of %d although tensors are empty", async (align) => {
  expect(describeAero(await written(align))).toMatchObject({ align });
});

test("describeAero() says nothing about the default alignment", async () => {
  expect(describeAero(await written(undefined))).not.toHaveProperty("align");
});
