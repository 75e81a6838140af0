/** The portable API with what only browsers have: a worker pool made of Web Workers. */
export * from "../../index.ts";
export { webEngine } from "./engine.ts";
