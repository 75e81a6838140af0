import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { encodeSetFile } from "../../src/formats/aeroset/set-file.ts";
import { type PullOptions, type PullResult, pull } from "../../src/operations/pull.ts";
import { nativeEngine } from "../../src/platform/node/engine/native.ts";
import { pullConnector } from "../../src/platform/node/pull/index.ts";
import { openPullStore } from "../../src/platform/node/pull/store.ts";
import { type BuiltChunk, buildAero, mjsn, phsh, tidx, wtsh } from "../builders/aero.ts";
import { type FileServer, startFileServer } from "../support/file-server.ts";

const sha256 = (bytes: Bytes): string => createHash("sha256").update(bytes).digest("hex");

/** A server that is gone after the test. */
export async function serve(files: Readonly<Record<string, Bytes>>): Promise<FileServer> {
  const server = await startFileServer(files);
  onTestFinished(() => server.close());
  return server;
}

/** A folder that is gone after the test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "tare-pull-"));
  onTestFinished(() => {
    for (const made of [path, stateOf(path)]) rmSync(made, { recursive: true, force: true });
  });
  return path;
}

/** Bytes that differ everywhere, the same for the same seed. */
export function noise(byteLength: number, seed = 1): Bytes {
  const words = new Uint32Array(Math.ceil(byteLength / 4));
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0; // Numerical Recipes
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, byteLength).slice();
}

/** An AERO file of one shard; without `pageBytes` it has chunk digests only. */
export function aeroFile(content: Bytes, pageBytes?: number): Bytes {
  const weights: BuiltChunk = wtsh(content);
  const index = tidx([{ name: "w", shape: [content.byteLength / 4], len: content.byteLength }]);
  const pages = pageBytes === undefined ? [] : [phsh(weights, pageBytes)];
  return buildAero({ chunks: [mjsn({ model_name: "m" }), index, ...pages, weights] });
}

/** A set of these parts, with its index and JSON. */
export function setOf(parts: Readonly<Record<string, Bytes>>, index: Bytes): Record<string, Bytes> {
  const json = encodeSetFile({
    model: { name: "m", architecture: "a" },
    parts: Object.entries(parts).map(([path, bytes], i) => {
      return { path, sha256: sha256(bytes), sizeBytes: bytes.byteLength, shards: [i] };
    }),
    globalIndex: { path: "index.aero", sha256: sha256(index), sizeBytes: index.byteLength },
  });
  return { ...parts, "index.aero": index, "model.aeroset.json": json };
}

/** Where a pull into the folder keeps its secret. */
export function stateOf(directory: string): string {
  return `${directory}.state`;
}

/** Pulls into a folder; waits between tries are short. */
export async function pullInto(
  directory: string,
  options: Pick<PullOptions, "url"> & Partial<PullOptions>,
  environment: Readonly<Record<string, string>> = {},
): Promise<PullResult & { readonly requests: number }> {
  const engine = await nativeEngine({ missing: "use-portable" });
  const connections = options.concurrency ?? 4;
  const connector = pullConnector({ engine, connections, environment, headersFor: async () => ({}) });
  const store = await openPullStore(directory, { environment: { XDG_STATE_HOME: stateOf(directory) } });
  try {
    const result = await pull({
      connect: (url) => connector.connect(url),
      store,
      engine,
      concurrency: connections,
      retry: { retries: 5, baseDelayMs: 5, maxDelayMs: 50 },
      ...options,
    });
    return { ...result, requests: connector.requests };
  } finally {
    await store.close();
    await connector.close();
  }
}

/** The content of a file in the folder; undefined where there is none. */
export function contentOf(directory: string, name: string): Bytes | undefined {
  const path = join(directory, name);
  return existsSync(path) ? new Uint8Array(readFileSync(path)) : undefined;
}

/** Whether a file has exactly these bytes: matchers take minutes for megabytes. */
export function holds(directory: string, name: string, bytes: Bytes): boolean {
  const content = contentOf(directory, name);
  return content !== undefined && Buffer.compare(content, bytes) === 0;
}
