export { AprModel } from "./apr-model.ts";
export { apr } from "./index.ts";
export { openApr } from "./open.ts";
