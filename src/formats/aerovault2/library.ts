import { vaultOpener } from "../../api/open/one-vault.ts";
import { lazyPortableEngine } from "../../primitives/lazy-engine.ts";
import { aerovault2 as format } from "./index.ts";

/** `tare/formats/aerovault2`. */
export { format };
export const open = /* @__PURE__ */ vaultOpener(format, lazyPortableEngine);

export type * from "../../api/types.ts";
