/** The portable API with what only browsers have: a worker pool made of Web Workers, and embedders in a worker. */
export * from "../../index.ts";
export type { ClonableInput } from "./embedder-protocol.ts";
export { webEngine } from "./engine.ts";
export { loadEmbedder, type WebEmbedder, type WebEmbedderOptions } from "./load-embedder.ts";
