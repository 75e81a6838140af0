export { safetensors } from "./index.ts";
