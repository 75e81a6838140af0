import { modelOpener } from "../../api/open/one-format.ts";
import { lazyPortableEngine } from "../../primitives/lazy-engine.ts";
import { aero as format } from "./index.ts";

/** `tare/formats/aero`. */
export { format };
export const open = /* @__PURE__ */ modelOpener(format, lazyPortableEngine);

export type * from "../../api/types.ts";
