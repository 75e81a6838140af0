export { aerovault2 } from "./index.ts";
