import { modelOpener } from "../../../src/api/open/one-format.ts";
import { lazyPortableEngine } from "../../../src/primitives/lazy-engine.ts";
import { toy as format } from "./index.ts";

/** `tare/formats/toy`. */
export { format };
export const open = /* @__PURE__ */ modelOpener(format, lazyPortableEngine);
