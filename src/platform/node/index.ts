/** The portable API with what only Node has: files, proxies, native code and worker threads. */
export * from "../../index.ts";
export { cacheFolder } from "./cache-place.ts";
export { directoryOutput } from "./directory-output.ts";
export { directoryResolver } from "./directory-resolver.ts";
export { DiskCache, type DiskCacheOptions } from "./disk-cache.ts";
export { type EngineTier, nodeEngine } from "./engine.ts";
export { fileSink } from "./file-sink.ts";
export { openFile } from "./file-source.ts";
export { nodeTransport } from "./http-transport.ts";
export { loadEmbedder, type NodeEmbedderOptions } from "./load-embedder.ts";
export { type NodeOpenOptions, open, openModel } from "./open.ts";
export { type OpenedTarget, type OpenTargetOptions, openTarget } from "./open-target.ts";
export { type FilePatch, finishPatch, patchFile } from "./patch-file.ts";
export { type NodeS3Options, nodeS3Client } from "./s3-client.ts";
export { readS3Settings } from "./s3-settings.ts";
export { type AccessEntry, type DirectoryServer, type ServeOptions, serveDirectory } from "./serve/serve-directory.ts";
