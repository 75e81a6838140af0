import { modelOpener } from "../../api/open/one-format.ts";
import { lazyPortableEngine } from "../../primitives/lazy-engine.ts";
import { embd as format } from "./index.ts";

/** `tare/formats/embd`. */
export { format };
export const open = /* @__PURE__ */ modelOpener(format, lazyPortableEngine);

export type * from "../../api/types.ts";
