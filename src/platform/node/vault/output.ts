import { dirname } from "node:path";
import type { Bytes } from "../../../base/bytes.ts";
import { doneError, existsError, type Output, type Sink } from "../../../bytes/sink.ts";
import type { Source } from "../../../bytes/source.ts";
import { EntrySource, planEntry } from "../../../formats/aerovault/archive.ts";
import { blockExtent } from "../../../formats/aerovault/blocks/check.ts";
import { ChunkStore } from "../../../formats/aerovault/blocks/store.ts";
import { HEADER_BYTES } from "../../../formats/aerovault/layout.ts";
import { DEFAULT_BOUNDS, type ManifestEntry, maxChunkBytes } from "../../../formats/aerovault/manifest/records.ts";
import type { Vault } from "../../../formats/aerovault/vault.ts";
import type { VaultEdit } from "../../../formats/aerovault/write/edit.ts";
import { draftSource } from "../../../formats/aerovault/write/state.ts";
import { addToVault } from "../../../operations/vault/add.ts";
import type { StreamInput } from "../../../operations/vault/inputs.ts";
import { sealSetup } from "../../../operations/vault/sealing.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { type VaultPath, vaultPathText } from "../files/output-place.ts";
import type { Overwrite } from "../files/sink.ts";
import { sealRunner } from "./adding/runner.ts";
import { keepSealed } from "./adding/sealed-copy.ts";
import { type Applied, changeVault, type VaultWriteContext } from "./change.ts";

/**
 * A file of a vault as a Sink: appended bytes are encrypted as they arrive, so that they are never on disk in clear
 * text. A model is cut at its tensors, as if it were added from disk. The vault is the one with the file or the one
 * without it. It is open and locked when this resolves: a wrong password or a taken path is reported before anything is
 * written.
 */
export async function openVaultSink(path: VaultPath, context: VaultWriteContext, overwrite: Overwrite): Promise<Sink> {
  const sink = new VaultSink(path, context, overwrite);
  await sink.opened();
  return sink;
}

/** The folder of a vault that contains the named file; `name` is that of the file. */
export function vaultOutput(path: VaultPath, context: VaultWriteContext, overwrite: Overwrite): Output {
  const folder = path.entry.slice(0, path.entry.lastIndexOf("/") + 1);
  return {
    label: vaultPathText(path),
    name: path.entry.slice(folder.length),
    create: (name) => openVaultSink({ ...path, entry: `${folder}${name}` }, context, overwrite),
  };
}

interface Waiting {
  readonly bytes: Bytes;
  readonly taken: Settling<void>;
}

class VaultSink implements Sink {
  readonly label: string;
  readonly #path: VaultPath;
  readonly #context: VaultWriteContext;
  readonly #overwrite: Overwrite;
  readonly #waiting: Waiting[] = [];
  readonly #ready = new Settling<void>();
  readonly #stored = new Settling<Source>();
  readonly #decided = new Settling<void>();
  readonly #changed: Promise<unknown>;
  #wake = new Settling<void>();
  /** "ended" takes no more bytes, and waits for the decision to commit or abort. */
  #state: "open" | "ended" | "committing" | "aborted" = "open";
  #position = 0;
  #failure: unknown;

  constructor(path: VaultPath, context: VaultWriteContext, overwrite: Overwrite) {
    this.#path = path;
    this.label = vaultPathText(path);
    this.#context = context;
    this.#overwrite = overwrite;
    this.#changed = changeVault(path.vault, context, {
      layout: "update",
      apply: (edit, vault) => this.#store(edit, vault),
    });
    this.#changed.catch((error: unknown) => this.#fail(error));
  }

  get position(): number {
    return this.#position;
  }

  opened(): Promise<void> {
    return this.#ready.promise;
  }

  async append(bytes: Bytes): Promise<void> {
    if (this.#state !== "open") throw doneError(this.label);
    if (this.#failure !== undefined) throw this.#failure;
    this.#position += bytes.byteLength;
    const taken = new Settling<void>();
    this.#waiting.push({ bytes, taken });
    this.#wake.resolve();
    await taken.promise;
  }

  /** Storing ends here: nothing can be appended after it. */
  async reopen(): Promise<Source> {
    this.#end("ended");
    return this.#stored.promise;
  }

  async commit(): Promise<void> {
    this.#end("committing");
    this.#decided.resolve();
    await this.#changed;
  }

  async abort(): Promise<void> {
    if (this.#state !== "committing") this.#state = "aborted";
    this.#fail(new DOMException("The output was given up", "AbortError"));
    await this.#changed.catch(() => undefined);
  }

  /** The change of the vault: it runs while bytes arrive, and ends with the decision to commit or abort. */
  async #store(edit: VaultEdit, vault: Vault): Promise<Applied<undefined>> {
    const { entry } = this.#path;
    const { engine, limits, signal } = this.#context;
    if (this.#overwrite === "refuse" && edit.tree.kindOf(entry) !== undefined) throw existsError(this.label);
    edit.tree.checkFile(entry);
    const { keys, manifest, source } = vault;
    const settings = {
      bounds: manifest.wrappers.chunking.bounds ?? DEFAULT_BOUNDS,
      level: manifest.wrappers.compression.level,
    };
    const setup = await sealSetup(engine, settings, { keys, chunker: "keyed", label: source.label });
    const runner = sealRunner({ engine, byteLength: 0, files: 1, signal, isKnown: (id) => edit.has(id) });
    this.#ready.resolve();
    const copy = { engine, limits, signal, folder: dirname(this.#path.vault), label: this.label };
    const input: StreamInput = {
      kind: "stream",
      path: entry,
      label: this.label,
      pieces: () => this.#pieces(),
      keep: (pieces) => keepSealed(pieces, copy),
    };
    await addToVault(edit, [input], { engine, runner, setup, signal });
    this.#stored.resolve(storedSource(edit, vault, entry, engine));
    await this.#decided.promise;
    return { result: undefined };
  }

  async *#pieces(): AsyncGenerator<Bytes> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const next = this.#waiting[0];
      if (next !== undefined) {
        // A copy, because the caller of append may reuse its buffer. The entry stays in the queue until the next piece
        // is requested. If storing fails, that never happens, and `#fail` rejects it with the rest of the queue.
        yield next.bytes.slice();
        this.#waiting.shift();
        next.taken.resolve();
      } else if (this.#state !== "open") return;
      else {
        await this.#wake.promise;
        this.#wake = new Settling<void>();
      }
    }
  }

  #end(state: "ended" | "committing"): void {
    if (this.#state === "committing" || this.#state === "aborted") throw doneError(this.label);
    this.#state = state;
    this.#wake.resolve();
  }

  /** Rejects everything that waits, with the first failure. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    for (const { taken } of this.#waiting.splice(0)) taken.reject(this.#failure);
    for (const one of [this.#ready, this.#stored, this.#decided]) one.reject(this.#failure);
    this.#wake.resolve();
  }
}

/** An added file, read from the draft before it is visible to others. */
function storedSource(edit: VaultEdit, vault: Vault, path: string, engine: Engine): Source {
  const entry = edit.tree.get(path) as ManifestEntry;
  const { keys, limits, source, cipher, manifest } = vault;
  let end = HEADER_BYTES;
  for (const record of edit.chunks.values()) {
    const { offset, byteLength } = blockExtent(record);
    end = Math.max(end, offset + byteLength);
  }
  const draft = draftSource({ label: source.label, read: (offset, byteLength) => edit.read(offset, byteLength) }, end);
  const bounds = {
    dataLength: end - HEADER_BYTES,
    maxBlockBytes: limits.blockBytes,
    maxChunkBytes: maxChunkBytes(manifest, limits.chunkBytes),
  };
  const store = new ChunkStore({ source: draft, engine, cipher, bounds });
  const plan = planEntry(entry, { chunks: edit.chunks, store, lane: keys.lane }, { source: source.label });
  return new EntrySource(entry, plan, store);
}

/** A promise that is settled from outside, and whose rejection may be ignored. */
class Settling<T> {
  readonly promise: Promise<T>;
  resolve: (value: T) => void = () => undefined;
  reject: (error: unknown) => void = () => undefined;

  constructor() {
    this.promise = new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.promise.catch(() => undefined);
  }
}
