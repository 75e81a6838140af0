/** The verbs that write, as they are loaded: together, because they share most of what they need. */
export { cat } from "./cat.ts";
export { convert } from "./convert.ts";
export { dequantize } from "./dequantize.ts";
export { extract } from "./extract.ts";
export { quantize } from "./quantize.ts";
export { merge, shard } from "./shard.ts";
export { stamp } from "./stamp.ts";
export { upgrade } from "./upgrade.ts";
