export { aerovault1 } from "./index.ts";
