import type { Format } from "../../model/format.ts";
import { knownOnnx } from "./known.ts";
import { ONNX_LIMITS } from "./limits.ts";
import { openOnnx } from "./open.ts";
import { onnxSections } from "./sections.ts";

/** ONNX models, for their initializers. Read only: a graph cannot be made from weights. */
export const onnx: Format = {
  ...knownOnnx,
  limits: ONNX_LIMITS,
  errors: async () => (await import("./errors.ts")).ONNX_ERRORS,
  open: openOnnx,
  async *verify(container, context) {
    const { verifyOnnx } = await import("./verify.ts");
    yield* verifyOnnx(container, context);
  },
  sections: onnxSections,
};
