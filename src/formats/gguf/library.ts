export { GGUF_ERRORS } from "../../catalog/formats/gguf.ts";
export { gguf } from "./index.ts";
export { GGUF_LIMITS, type GgufLimits } from "./limits.ts";
export { GgufModel } from "./model.ts";
export { type GgufPlan, planGguf, writeGguf } from "./plan.ts";
export { openGguf } from "./read.ts";
