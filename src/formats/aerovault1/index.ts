export { aerovault1 } from "./format.ts";
