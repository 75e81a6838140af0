import { expect, test } from "vitest";
import type { TareError } from "../../src/base/errors.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openSource, requireModel } from "../../src/open.ts";
import { buildGguf, byteTensor } from "../../test/builders/gguf.ts";
import { openCutShort } from "./cut-short.ts";

/** More than the opening read covers. */
const HERE = 300_000;
const DATA = Uint8Array.from({ length: HERE + 64 }, (_, i) => i % 251);
const TENSORS = [byteTensor("here", HERE, 0), byteTensor("gone", 64, HERE)];
const WHOLE = buildGguf({ tensors: TENSORS, data: DATA });
const CUT = memorySource(WHOLE.slice(0, WHOLE.byteLength - 32), "cut.gguf");

async function faultOf(source: typeof CUT): Promise<TareError> {
  return openSource(source).then(
    () => Promise.reject(new Error("it opened")),
    (error: TareError) => error,
  );
}

test("a truncated file lists all tensors, and those it has can be read", async () => {
  const fault = await faultOf(CUT);
  expect(fault).toMatchObject({ code: "format/gguf.truncated", neededBytes: WHOLE.byteLength });
  const { container } = await openCutShort(CUT, fault, {});
  const [here, gone] = requireModel(container).tensors;
  expect([here?.name, gone?.name]).toEqual(["here", "gone"]);
  expect(await here?.bytes()).toEqual(DATA.slice(0, HERE));
  await expect(gone?.bytes()).rejects.toBe(fault);
  const [part] = container.parts;
  expect(part?.source?.byteLength).toBe(WHOLE.byteLength);
});

test("if the tables themselves are missing, the fault stays the same", async () => {
  const fault = await faultOf(CUT);
  await expect(openCutShort(memorySource(WHOLE.slice(0, 40), "cut.gguf"), fault, {})).rejects.toBe(fault);
});
