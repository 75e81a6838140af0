export { GGUF_ERRORS } from "../../catalog/formats/gguf.ts";
export { GgufModel } from "./gguf-model.ts";
export { gguf } from "./index.ts";
export { GGUF_LIMITS, type GgufLimits } from "./limits.ts";
export { openGguf } from "./open.ts";
export { type GgufPlan, planGguf, writeGguf } from "./plan.ts";
