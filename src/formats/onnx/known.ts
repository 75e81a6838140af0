import type { KnownFormat } from "../../model/format.ts";
import { sniffOnnx } from "./sniff.ts";

/** ONNX, as far as it is known before a file asks for it. */
export const knownOnnx: KnownFormat = {
  id: "onnx",
  name: "ONNX",
  kind: "model",
  extensions: [".onnx"],
  access: "read",
  sniff: sniffOnnx,
  load: async () => (await import("./format.ts")).onnx,
};
