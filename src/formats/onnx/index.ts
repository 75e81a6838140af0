export { onnx } from "./format.ts";
