export { aeroset } from "./index.ts";
