export { AprModel } from "./apr-model.ts";
export { apr } from "./format.ts";
export { openApr } from "./open.ts";
