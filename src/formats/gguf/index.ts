export { GGUF_ERRORS } from "./errors.ts";
export { gguf } from "./format.ts";
export { GgufModel } from "./gguf-model.ts";
export { GGUF_LIMITS, type GgufLimits } from "./limits.ts";
export { openGguf } from "./open.ts";
export { type GgufPlan, planGguf, writeGguf } from "./plan.ts";
