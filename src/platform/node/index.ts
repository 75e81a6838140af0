/** The portable API with what only Node has: files, proxies, native code and worker threads. */
export * from "../../index.ts";
export { directoryOutput } from "./directory-output.ts";
export { directoryResolver } from "./directory-resolver.ts";
export { type EngineTier, nodeEngine } from "./engine.ts";
export { fileSink } from "./file-sink.ts";
export { openFile } from "./file-source.ts";
export { nodeTransport } from "./http-transport.ts";
export { type NodeOpenOptions, open, openModel } from "./open.ts";
export { type OpenedTarget, type OpenTargetOptions, openTarget } from "./open-target.ts";
