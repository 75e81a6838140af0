export { EmbdModel } from "./embd-model.ts";
export { embd } from "./index.ts";
export { type OpenEmbdOptions, openEmbd } from "./open.ts";
