import { portableVerbs } from "./verbs.ts";

/** A module of its own, so that bundlers leave all verbs out of a page that uses none. */
export const { inspect, list, meta, map, diff, stats, verify, sign, explain } = portableVerbs;
export const { cat, extract, convert, quantize, dequantize, shard, merge, stamp, upgrade } = portableVerbs;
export const { openVault, embed, loadEmbedder } = portableVerbs;
