import { existsSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { basename, dirname, join } from "node:path";
import { setFlagsFromString } from "node:v8";
import type { EmbeddingHost } from "../../../api/host.ts";
import { compareNames, isTextName } from "../../../embedding/texts.ts";
import { encoderRunner, MAX_WORKERS, WorkerPool } from "../../../workers/pool.ts";
import { findWorkerEntry, spawnNodeWorker, startThreadPool } from "../engine/engine.ts";
import { fileError } from "../errors.ts";
import { directoryOutput } from "../files/directory.ts";
import { openFile } from "../files/source.ts";
import { pathOf, writtenPath } from "../paths.ts";

/** Embedding in Node: on worker threads that share the weights, and with files for the vectors of a corpus. */
export const nodeEmbedding: EmbeddingHost = {
  async runner(asked) {
    enableRelaxedSimd();
    const threads = asked ?? Math.min(availableParallelism(), MAX_WORKERS);
    const entry = threads > 1 ? findWorkerEntry() : undefined;
    if (entry === undefined) return undefined;
    await startThreadPool(entry);
    const pool = new WorkerPool({
      size: threads,
      spawn: () => spawnNodeWorker(entry, { startedBy: "tare", tier: "portable" }),
    });
    return encoderRunner(pool, threads);
  },

  async textFiles(named, signal) {
    const path = pathOf(named);
    const facts = await stat(path).catch(() => undefined); // opening it reports what is wrong
    if (facts?.isDirectory() !== true) return undefined;
    const names = await textNamesBelow(path);
    return names.map((name) => ({ name, open: () => openFile(join(path, name), { signal, pipes: "refuse" }) }));
  },

  async indexFile(named, signal) {
    const path = writtenPath(named);
    return {
      read: async () => (existsSync(path) ? openFile(path, { signal, pipes: "refuse" }) : undefined),
      folder: async () => directoryOutput(dirname(path), basename(path), { overwrite: "replace" }),
    };
  },
};

/**
 * Text files below a folder. Hidden files and folders are left out, as in a listing, and so are links: they may lead out
 * of the folder or round in circles.
 */
async function textNamesBelow(root: string, folder = ""): Promise<readonly string[]> {
  const path = join(root, folder);
  const entries = await readdir(path, { withFileTypes: true }).catch((error: unknown) => {
    throw fileError(error, `Cannot read "${path}"`, { source: path });
  });
  const names: string[] = [];
  for (const entry of entries.sort((a, b) => compareNames(a.name, b.name))) {
    if (entry.name.startsWith(".")) continue;
    const name = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) for (const below of await textNamesBelow(root, name)) names.push(below);
    else if (entry.isFile() && isTextName(name)) names.push(name);
  }
  return names;
}

/** A module with one function that is f32x4.relaxed_madd. */
const PROBE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // magic, version
  ...[1, 8, 1, 0x60, 3, 0x7b, 0x7b, 0x7b, 1, 0x7b], // type: three v128 to one
  ...[3, 2, 1, 0], // one function of that type
  ...[10, 13, 1, 11, 0, 0x20, 0, 0x20, 1, 0x20, 2, 0xfd, 0x85, 2, 0x0b], // its code
);

/**
 * Lets V8 compile relaxed SIMD. Node 20 has it behind a flag that may be set at run time. Later versions have it anyway
 * and refuse such flags, so the flag is set only if needed.
 */
export function enableRelaxedSimd(): void {
  if (WebAssembly.validate(PROBE)) return;
  try {
    setFlagsFromString("--experimental-wasm-relaxed-simd");
  } catch {
    // Without it the plain kernel is used.
  }
}
