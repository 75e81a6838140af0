import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeHex, encodeUtf8 } from "../../src/base/text.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openVault } from "../../src/formats/aerovault/open.ts";
import { closeVault, type Vault } from "../../src/formats/aerovault/vault.ts";
import { type ChunkerName, gearRule } from "../../src/formats/aerovault/write/chunking.ts";
import { type EditLayout, VaultEdit } from "../../src/formats/aerovault/write/edit.ts";
import { effectiveLevel, type VaultSettings } from "../../src/formats/aerovault/write/profiles.ts";
import type { Compress } from "../../src/formats/aerovault/write/seal/block-sealer.ts";
import type { VaultDraft } from "../../src/formats/aerovault/write/state.ts";
import { type EditHost, stateOf } from "../../src/formats/aerovault/write/state.ts";
import { type AddReport, addToVault } from "../../src/operations/vault/add.ts";
import { type CreateOptions, createVault } from "../../src/operations/vault/create.ts";
import type { AddInput } from "../../src/operations/vault/inputs.ts";
import { reslot } from "../../src/operations/vault/rekey.ts";
import { localRunner } from "../../src/operations/vault/sealing.ts";
import type { RandomBytes } from "../../src/primitives/crypto/secrets.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { portableEngine } from "../../src/primitives/portable.ts";

/** The clock of vaults that are the same every time. */
export const FIXED_TIME = "2026-06-17T00:00:00Z";

/**
 * The random stream of the reference's own test mode: blocks of BLAKE3 over a label and a counter, each request beginning
 * a new block. Never for anything but tests: whoever knows the stream knows the keys.
 */
export async function fixedRandom(count = 512): Promise<RandomBytes> {
  const engine = portableEngine();
  const blocks: Bytes[] = [];
  for (let i = 0; i < count; i++) {
    const counter = new Uint8Array(8);
    new DataView(counter.buffer).setBigUint64(0, BigInt(i), true);
    blocks.push(await engine.digest("blake3", concatBytes([encodeUtf8("AEROVAULT3 test-vectors v1"), counter])));
  }
  let next = 0;
  return (byteLength) => {
    const block = blocks[next++];
    if (block === undefined || byteLength > 32) throw new Error("the fixed random stream is used up");
    return block.slice(0, byteLength);
  };
}

const derivedKeys = new Map<string, Bytes>();

/** The same engine, which turns a password into a key only once: the real cost of that is for other tests. */
export function rememberingKeys(engine: Engine): Engine {
  const argon2id: Engine["argon2id"] = async (password, parameters) => {
    const { salt, memoryKib, passes, lanes, byteLength } = parameters;
    const name = [encodeHex(password), encodeHex(salt), memoryKib, passes, lanes, byteLength].join(":");
    const key = derivedKeys.get(name) ?? (await engine.argon2id(password, parameters));
    derivedKeys.set(name, key.slice());
    return key.slice();
  };
  return new Proxy(engine, {
    get(target, name) {
      if (name === "argon2id") return argon2id;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** A draft in memory that remembers in which order it was written to. */
export class MemoryDraft implements VaultDraft {
  readonly label = "memory";
  bytes: Bytes;
  committed: Bytes | undefined;

  constructor(bytes: Bytes = new Uint8Array(0)) {
    this.bytes = bytes.slice();
  }

  async write(offset: number, bytes: Bytes): Promise<void> {
    if (offset + bytes.byteLength > this.bytes.byteLength) {
      const longer = new Uint8Array(offset + bytes.byteLength);
      longer.set(this.bytes);
      this.bytes = longer;
    }
    this.bytes.set(bytes, offset);
  }

  async read(offset: number, byteLength: number): Promise<Bytes> {
    return this.bytes.slice(offset, offset + byteLength);
  }

  async commit(header: Bytes, byteLength: number): Promise<void> {
    await this.write(0, header);
    this.committed = this.bytes.slice(0, byteLength);
  }

  async abort(): Promise<void> {}
}

export interface TestVaultOptions {
  readonly engine: Engine;
  readonly random?: RandomBytes;
  readonly compress?: Compress | undefined;
  /** "reference" writes what the reference would; ours where absent. */
  readonly manner?: "reference";
  readonly layout?: EditLayout;
  readonly chunker?: ChunkerName;
}

/** A vault in memory, changed by one verb after the other; `bytes` is the file after the last of them. */
export class TestVault {
  bytes: Bytes = new Uint8Array(0);
  readonly #options: TestVaultOptions;
  readonly #host: EditHost;
  #password: Bytes | undefined;

  constructor(given: TestVaultOptions) {
    const options = { ...given, engine: rememberingKeys(given.engine) };
    this.#options = options;
    const random = options.random ?? ((length) => globalThis.crypto.getRandomValues(new Uint8Array(length)));
    this.#host = { engine: options.engine, random, now: () => FIXED_TIME, manner: options.manner };
  }

  async create(
    settings: VaultSettings,
    options: { readonly password?: string; readonly parityPercent?: number } = {},
  ): Promise<void> {
    this.#password = options.password === undefined ? undefined : encodeUtf8(options.password);
    const draft = new MemoryDraft();
    const create: CreateOptions = { settings, password: this.#password, parityPercent: options.parityPercent };
    await createVault(draft, create, this.#host);
    this.bytes = committed(draft);
  }

  /** Opens the file as any reader would. */
  open(): Promise<Vault> {
    const { engine } = this.#options;
    const password = async (): Promise<Bytes | undefined> => this.#password?.slice();
    return openVault(memorySource(this.bytes), { engine, limits: {}, password });
  }

  mkdir(path: string): Promise<number> {
    return this.edit(async (edit) => edit.tree.makeDirectory(path, edit.now));
  }

  move(from: string, to: string): Promise<void> {
    return this.edit(async (edit) => edit.tree.move(from, to, edit.now));
  }

  copy(from: string, to: string): Promise<number> {
    return this.edit(async (edit) => edit.tree.copy(from, to, edit.now));
  }

  remove(paths: readonly string[]): Promise<number> {
    return this.edit(async (edit) => {
      const removed = edit.tree.remove(paths, "recursive");
      edit.dropUnreferenced();
      return removed;
    });
  }

  async passwd(password: string): Promise<void> {
    const fresh = encodeUtf8(password);
    const { engine } = this.#options;
    const slots = async (vault: Vault) => reslot(engine, vault.keys, fresh, { random: this.#host.random });
    await this.edit(async () => undefined, slots);
    this.#password = fresh;
  }

  add(inputs: readonly AddInput[]): Promise<AddReport> {
    const { engine, compress, chunker, manner } = this.#options;
    return this.edit(async (edit, vault) => {
      const { wrappers } = vault.manifest;
      const bounds = wrappers.chunking.bounds ?? { min: 262_144, avg: 1_048_576, max: 4_194_304 };
      const rule = manner === "reference" ? "reference" : (chunker ?? "keyed");
      const runner = localRunner({
        engine,
        random: this.#host.random,
        compress,
        isKnown: (id) => edit.has(id),
        open: () => Promise.reject(new Error("nothing is on disk")),
      });
      const setup = {
        keys: vault.keys,
        level: effectiveLevel(wrappers.compression.level),
        compression: rule === "reference" ? ("reference" as const) : ("adaptive" as const),
        gear: await gearRule(engine, rule, { keys: vault.keys, bounds }),
      };
      return addToVault(edit, inputs, { engine, runner, setup });
    });
  }

  /** One change of any kind. */
  async edit<T>(
    apply: (edit: VaultEdit, vault: Vault) => Promise<T>,
    slots?: (vault: Vault) => Promise<Parameters<VaultEdit["seal"]>[0]>,
    layout: EditLayout = this.#options.layout ?? (this.#options.manner === "reference" ? "rewrite" : "update"),
  ): Promise<T> {
    const vault = await this.open();
    try {
      const draft = new MemoryDraft(layout === "update" ? this.bytes : undefined);
      const edit = new VaultEdit({ state: stateOf(vault), draft, cipher: vault.cipher, host: this.#host, layout });
      const result = await apply(edit, vault);
      await edit.seal(await slots?.(vault));
      this.bytes = committed(draft);
      return result;
    } finally {
      await closeVault(vault);
    }
  }
}

function committed(draft: MemoryDraft): Bytes {
  if (draft.committed === undefined) throw new Error("the draft was not committed");
  return draft.committed;
}

/** A file in memory, to be added. */
export function fileInput(path: string, bytes: Bytes, own: Partial<AddInput> = {}): AddInput {
  return {
    kind: "file",
    path,
    label: path,
    size: bytes.byteLength,
    open: async () => ({
      source: memorySource(bytes, path),
      tensors: [],
      checkUnchanged: async () => undefined,
      close: async () => undefined,
    }),
    ...own,
  } as AddInput;
}
