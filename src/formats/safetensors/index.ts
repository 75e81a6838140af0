export { safetensors } from "./format.ts";
