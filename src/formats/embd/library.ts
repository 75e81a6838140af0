export { embd } from "./index.ts";
export { EmbdModel } from "./model.ts";
export { type OpenEmbdOptions, openEmbd } from "./read.ts";
