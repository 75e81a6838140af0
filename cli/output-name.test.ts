import { expect, it } from "vitest";
import { formatById } from "../src/formats/registry.ts";
import type { Format } from "../src/model/format.ts";
import { outputBaseName } from "./output-name.ts";

it.each([
  ["models/model.safetensors", "model.gguf"],
  ["https://example.org/a/model.gguf?…", "model.gguf"],
  ["model-00001-of-00003.gguf", "model.gguf"],
  ["model.safetensors.index.json", "model.gguf"],
  ["llama-3.2-1b.gguf", "llama-3.2-1b.gguf"],
  ["standard input", "model.gguf"],
  ["-", "model.gguf"],
])("outputBaseName() of %s", (label, name) => {
  expect(outputBaseName(label, formatById("gguf") as Format)).toBe(name);
});
