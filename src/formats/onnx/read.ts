import type { FormatReader } from "../../model/format.ts";
import { ONNX_LIMITS } from "./limits.ts";
import { openOnnx } from "./open.ts";
import { onnxSections } from "./sections.ts";

/** ONNX models, for their initializers. Read only: a graph cannot be made from weights. */
export const reader: FormatReader = {
  limits: ONNX_LIMITS,
  open: openOnnx,
  sections: onnxSections,
};
