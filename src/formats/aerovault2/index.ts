export { aerovault2 } from "./format.ts";
