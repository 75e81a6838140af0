/** The portable API and what only browsers have: an engine on Web Workers, and embedders in a worker of their own. */
export * from "../../index.ts";
export type { PortableOptions } from "../../primitives/table.ts";
export { type WebEngineOptions, webEngine } from "./engine.ts";
export type { ClonableInput, ClonableOptions, EmbedderFacts } from "./load-embedder.ts";
export { loadEmbedder, type WebEmbedder, type WebEmbedderOptions, type WebInput } from "./load-embedder.ts";
