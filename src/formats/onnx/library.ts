export { onnx } from "./index.ts";
