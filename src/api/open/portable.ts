import { explain, FORMATS } from "../../formats/registry.ts";
import { lazyPortableEngine } from "../../primitives/lazy-engine.ts";
import { addressDestination, addressHost } from "../addresses.ts";
import type { VerbHost } from "../host.ts";
import type { Verbs } from "../verbs.ts";
import { openModel as openModelOn, open as openOn } from "./index.ts";

/**
 * Opening in pages, workers, and in Node without its file system. Apart from the other verbs and not loaded on demand:
 * every program opens something, and a page that only opens has nothing else in its bundle.
 */
export const open: Verbs["open"] = (input, options) => openOn(portableHost, input, options);

export const openModel: Verbs["openModel"] = (input, options) => openModelOn(portableHost, input, options);

/** The host of pages, workers, and of Node without its file system: text is an address. */
export const portableHost: VerbHost = /* @__PURE__ */ makeHost();

function makeHost(): VerbHost {
  return {
    ...addressHost({ formats: FORMATS, explain, engine: lazyPortableEngine }),
    destinationOf: addressDestination,
  };
}
