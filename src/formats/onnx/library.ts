import { modelOpener } from "../../api/open/one-format.ts";
import { noEngine } from "../../primitives/lazy-engine.ts";
import { onnx as format } from "./index.ts";

/** `tare/formats/onnx`. */
export { format };
/** It computes nothing to read a file, so a bundle has no primitives. */
export const open = /* @__PURE__ */ modelOpener(format, noEngine);

export type * from "../../api/types.ts";
