export { aeroset } from "./format.ts";
