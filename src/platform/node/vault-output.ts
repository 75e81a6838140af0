import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { blockExtent } from "../../formats/aerovault/block-check.ts";
import { ChunkStore } from "../../formats/aerovault/chunk-store.ts";
import { EntrySource, planEntry } from "../../formats/aerovault/entry-source.ts";
import { HEADER_BYTES } from "../../formats/aerovault/layout.ts";
import { DEFAULT_BOUNDS, type ManifestEntry, maxChunkBytes } from "../../formats/aerovault/manifest.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import type { VaultEdit } from "../../formats/aerovault/write/vault-edit.ts";
import { addToVault } from "../../operations/vault/add.ts";
import { sealSetup } from "../../operations/vault/seal-setup.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { Overwrite } from "./file-sink.ts";
import { type VaultPath, vaultPathText } from "./output-place.ts";
import { draftSource } from "./vault-create.ts";
import { sealRunner } from "./vault-runner.ts";
import { type Applied, changeVault, type VaultWriteContext } from "./vault-writer.ts";

/**
 * A file of a vault as a Sink: what is appended is sealed as it comes, so that no byte of it is ever on disk in clear, and the
 * vault is the one with the file or the one without it. The vault is open and locked when this resolves: a wrong password and
 * a path that is taken are told before anything is written.
 */
export async function openVaultSink(path: VaultPath, context: VaultWriteContext, overwrite: Overwrite): Promise<Sink> {
  const sink = new VaultSink(path, context, overwrite);
  await sink.opened();
  return sink;
}

/** The folder of a vault that a file was named in; the name is that of the file. */
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
  #isEnded = false;
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
    if (this.#failure !== undefined) throw this.#failure;
    this.#position += bytes.byteLength;
    const taken = new Settling<void>();
    this.#waiting.push({ bytes, taken });
    this.#wake.resolve();
    await taken.promise;
  }

  async reopen(): Promise<Source> {
    this.#end();
    return this.#stored.promise;
  }

  async commit(): Promise<void> {
    this.#end();
    this.#decided.resolve();
    await this.#changed;
  }

  async abort(): Promise<void> {
    this.#fail(new DOMException("The output was given up", "AbortError"));
    await this.#changed.catch(() => undefined);
  }

  /** The change of the vault: it goes on while bytes come, and ends when somebody has decided about them. */
  async #store(edit: VaultEdit, vault: Vault): Promise<Applied<undefined>> {
    const { entry } = this.#path;
    const { engine, signal } = this.#context;
    if (this.#overwrite === "refuse" && edit.tree.kindOf(entry) !== undefined) throw this.#exists();
    edit.tree.checkFile(entry);
    const { keys, manifest, source } = vault;
    const settings = {
      bounds: manifest.wrappers.chunking.bounds ?? DEFAULT_BOUNDS,
      level: manifest.wrappers.compression.level,
    };
    const setup = await sealSetup(engine, settings, { keys, chunker: "keyed", label: source.label });
    const runner = sealRunner({ engine, byteLength: 0, files: 1, signal, isKnown: (id) => edit.has(id) });
    this.#ready.resolve();
    const input = { kind: "stream", path: entry, label: this.label, pieces: () => this.#pieces() } as const;
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
        // A copy: whoever appends may use its buffer again. It waits until the next one is asked for, which never happens
        // where storing it fails: till then it is among those that are told.
        yield next.bytes.slice();
        this.#waiting.shift();
        next.taken.resolve();
      } else if (this.#isEnded) return;
      else {
        await this.#wake.promise;
        this.#wake = new Settling<void>();
      }
    }
  }

  #end(): void {
    this.#isEnded = true;
    this.#wake.resolve();
  }

  /** Ends everything that waits; what failed first is told. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    for (const { taken } of this.#waiting.splice(0)) taken.reject(this.#failure);
    for (const one of [this.#ready, this.#stored, this.#decided]) one.reject(this.#failure);
    this.#wake.resolve();
  }

  #exists(): UsageError {
    const message = `Cannot write "${this.label}": it exists already`;
    const hint = "Choose another name, or pass --force";
    return new UsageError("usage/exists", message, { source: this.label }, { hint });
  }
}

/** A file that was added, read from the draft before anybody else can see it. */
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

/** A promise that is settled from outside, and whose failure need not be waited for. */
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
