export { EmbdModel } from "./embd-model.ts";
export { embd } from "./format.ts";
export { type OpenEmbdOptions, openEmbd } from "./open.ts";
