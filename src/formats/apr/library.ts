export { apr } from "./index.ts";
export { AprModel } from "./model.ts";
export { openApr } from "./read.ts";
