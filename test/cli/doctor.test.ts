import { expect, it } from "vitest";
import { callTare } from "./run-tare.ts";

interface Row {
  readonly id: string;
  readonly write: boolean;
}

it("doctor says of every format whether tare writes it", async () => {
  const { out } = await callTare(["doctor", "--json"]);
  const { formats } = JSON.parse(out) as { readonly formats: readonly Row[] };
  const written = (wanted: boolean): string[] => formats.filter(({ write }) => write === wanted).map(({ id }) => id);
  expect(written(true).sort()).toEqual(["aero", "aeroset", "aerovault", "apr", "embd", "gguf", "safetensors"]);
  expect(written(false).sort()).toEqual(["aerovault1", "aerovault2", "onnx"]);
});
