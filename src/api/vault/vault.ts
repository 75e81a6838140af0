import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { disposable, type OpenSource } from "../../bytes/source.ts";
import type { Archive, Entry } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Model, Part } from "../../model/model.ts";
import type { Password } from "../../model/password.ts";
import { keepLive, openInside, requireModel } from "../../open.ts";
import { requestOf, type VerbHost, withDoubts, withStreams } from "../host.ts";
import { type Input, openOptionsOf } from "../inputs.ts";
import { listArchive, listResult } from "../look/list.ts";
import {
  COMMON_RULES,
  type CommonOptions,
  checkOptions,
  listOf,
  type OneOrMany,
  type OptionRules,
  WRITE_RULES,
  type WriteOptions,
} from "../options.ts";
import { destinationOf, type Output } from "../outputs.ts";
import type { VerifyResult } from "../trust/verify.ts";
import { extractArchive } from "./extract.ts";
import { findEntry, type HeldArchive, HeldEntry } from "./held.ts";
import {
  ADD_RULES,
  type AddOptions,
  CHANGE_RULES,
  type ChangeOptions,
  type ChangePasswordOptions,
  checkNewEntry,
  checkPassword,
  checkTexts,
  EMBED_PARITY_RULES,
  type EmbedParityOptions,
  type EntryData,
  EXPORT_PARITY_RULES,
  EXTRACT_RULES,
  type ExportParityOptions,
  type ExtractVaultOptions,
  LIST_RULES,
  type ListEntriesOptions,
  type NewEntry,
  PASSWORD_RULES,
  READ_RULES,
  REMOVE_RULES,
  type ReadEntryOptions,
  type RemoveOptions,
  STRIP_PARITY_RULES,
  type StripParityOptions,
  someOf,
} from "./options.ts";
import { catEntry, diffWith, infoOf, readFile, scrubOpened } from "./reading.ts";
import type {
  VaultAddResult,
  VaultCatResult,
  VaultCompactResult,
  VaultCopyResult,
  VaultCreateResult,
  VaultDiffResult,
  VaultExtractResult,
  VaultInfoResult,
  VaultListResult,
  VaultMkdirResult,
  VaultMoveResult,
  VaultParityResult,
  VaultPasswordResult,
  VaultRemoveResult,
} from "./results.ts";
import type { EntryWriter, VaultPlace, VaultWriter } from "./writer.ts";

/** What a Vault is made of. */
export interface VaultParts {
  /** As the user named it. */
  readonly label: string;
  readonly format: string;
  readonly version: string | undefined;
  readonly host: VerbHost;
  /** Absent for a dry run, which makes no vault. */
  readonly held?: HeldArchive | undefined;
  readonly place?: VaultPlace | undefined;
  readonly writer?: VaultWriter | undefined;
  /** The writer of a batch, in its place. */
  readonly batch?: EntryWriter | undefined;
  readonly summary: (archive: Archive | undefined) => VaultCreateResult;
  /** The text that it was opened by. */
  readonly target?: string | undefined;
}

let make: (parts: VaultParts) => Vault;

/**
 * An opened vault: its entries, and the changes of them. Each change is one commit: when its promise resolves, the
 * change is durable; when it rejects, or the process dies, the vault is as it was. Close it when done.
 */
export class Vault {
  readonly kind = "archive";
  /** The vault as it was named. */
  readonly label: string;
  readonly format: string;
  readonly version: string | undefined;
  /** Parity beside the vault, or in it. */
  readonly parity: {
    /** Writes the sidecar of the vault: parity of header, manifest and blocks. */
    export(options?: ExportParityOptions): Promise<VaultParityResult>;
    /** Lets the vault carry parity, which every change keeps current. */
    embed(options?: EmbedParityOptions): Promise<VaultParityResult>;
    /** Takes the parity out of the vault. */
    strip(options?: StripParityOptions): Promise<VaultParityResult>;
  };
  readonly #parts: VaultParts;
  #entries: { readonly of: Archive; readonly list: readonly Entry[] } | undefined;
  /** Of a batch that is over. */
  #isOver = false;

  private constructor(parts: VaultParts) {
    this.#parts = parts;
    this.label = parts.label;
    this.format = parts.format;
    this.version = parts.version;
    this.parity = {
      export: async (options = {}) => this.#whole("parity.export", options, EXPORT_PARITY_RULES).exportParity(options),
      embed: async (options = {}) => this.#whole("parity.embed", options, EMBED_PARITY_RULES).embedParity(options),
      strip: async (options = {}) => this.#whole("parity.strip", options, STRIP_PARITY_RULES).stripParity(options),
    };
    const { held } = parts;
    if (held !== undefined) keepLive(this, () => ({ siblings: undefined, ...held.opened() }));
  }

  static {
    make = (parts) => new Vault(parts);
  }

  /** True for a version 3 vault that was opened or made by a path, in Node. */
  get writable(): boolean {
    const { writer, batch, held } = this.#parts;
    return (writer ?? batch) !== undefined && held?.isClosed === false && !this.#isOver;
  }

  get parts(): readonly Part[] {
    return this.#held.archive.parts;
  }

  /** What is wrong with the vault, if that is no error: also that this machine has seen a later state of it. */
  get warnings(): readonly Finding[] {
    return [...this.#held.archive.warnings, ...(this.#parts.host.doubts ?? [])];
  }

  get facts(): readonly (readonly [string, string])[] {
    return this.#held.archive.facts;
  }

  /** Files and directories, as they are after the last change. */
  get entries(): readonly Entry[] {
    const { archive } = this.#held;
    if (this.#entries?.of !== archive) {
      this.#entries = {
        of: archive,
        list: archive.entries.map((entry) => new HeldEntry(this.#held, { archive, entry })),
      };
    }
    return this.#entries.list;
  }

  /** Throws `usage/entry-not-found`, with near names as the hint. */
  entry(path: string): Entry {
    checkTexts("vault.entry", "path", [path]);
    const { archive } = this.#held;
    return new HeldEntry(this.#held, { archive, entry: archive.entry(path) });
  }

  has(path: string): boolean {
    checkTexts("vault.has", "path", [path]);
    return findEntry(this.#held.archive, path) !== undefined;
  }

  /** The bytes of a file: 256 MiB at most, unless `maxBytes` says otherwise. */
  async read(path: string, options: ReadEntryOptions = {}): Promise<Bytes> {
    check("read", options, READ_RULES);
    return readFile(this.source(path), path, options);
  }

  /** The bytes of a file by ranges. It goes on after changes of the vault, as long as the file is the same. */
  source(path: string): OpenSource {
    return disposable(this.entry(path).source());
  }

  /** Opens a model in the vault, in place; files beside it are found. The vault must stay open. */
  async openModel(path: string, options: CommonOptions = {}): Promise<Model> {
    const request = await requestOf(this.#host, "vault.openModel", options, COMMON_RULES);
    const carrier = this.#held.archive.authentication === undefined ? undefined : "authenticated";
    const { container } = await openInside(this, path, { ...openOptionsOf(request), carrier });
    try {
      return requireModel(container);
    } catch (error) {
      await container.close();
      throw error;
    }
  }

  async list(options: ListEntriesOptions = {}): Promise<VaultListResult> {
    check("list", options, LIST_RULES);
    const choice = { globs: listOf(options.glob) ?? [], label: this.label, sort: options.sort };
    return withDoubts(this.#parts.host, listResult(listArchive(this.#held.archive, choice)));
  }

  /** How the vault is made, and what it saves. */
  async info(): Promise<VaultInfoResult> {
    return this.#held.reading(async (archive) => {
      const facts = (await this.#parts.place?.facts?.(archive)) ?? archive.facts;
      return withDoubts(this.#parts.host, infoOf(archive, facts));
    });
  }

  /** Writes one file of the vault. */
  async cat(path: string, output: Output, options: WriteOptions = {}): Promise<VaultCatResult> {
    return withStreams([output], async () => {
      const host = this.#host;
      const request = await requestOf(host, "vault.cat", options, WRITE_RULES);
      return this.#held.reading(async (archive) => {
        const place = await destinationOf(host, output, request, { names: "file", inputs: "kept" });
        return withDoubts(host, await catEntry(archive, path, { place, request }));
      });
    });
  }

  /** Writes files and directories: all of them, or those that match, with all in directories that match. */
  async extract(output: Output, options: ExtractVaultOptions = {}): Promise<VaultExtractResult> {
    return withStreams([output], async () => {
      const host = this.#host;
      const request = await requestOf(host, "vault.extract", options, EXTRACT_RULES);
      const from = { label: this.label, target: this.#parts.target };
      return this.#held.reading(async (archive) => {
        const { result, lost } = await extractArchive(host, { archive, ...from }, output, request);
        if (lost.length > 0) this.#held.doubt();
        return withDoubts(host, result);
      });
    });
  }

  /** Files added, removed and changed, from this vault to the other one. */
  async diff(other: Input, options: CommonOptions = {}): Promise<VaultDiffResult> {
    const host = this.#host;
    const request = await requestOf(host, "vault.diff", options, COMMON_RULES);
    return this.#held.reading(async (archive) => withDoubts(host, await diffWith(host, archive, other, request)));
  }

  /** Proves every stored block. */
  async scrub(options: CommonOptions = {}): Promise<VerifyResult> {
    const request = await requestOf(this.#host, "vault.scrub", options, COMMON_RULES);
    const opened = this.#held.opened();
    try {
      const report = await scrubOpened(opened, request);
      if (!report.ok) this.#held.doubt();
      return withDoubts(this.#parts.host, report);
    } finally {
      opened.release();
    }
  }

  /** Stores paths of this machine, as `tare vault add` takes them, or data under a name. */
  async add(what: OneOrMany<string | URL | NewEntry>, options: AddOptions = {}): Promise<VaultAddResult> {
    const writer = this.#entryWriter("add", options, ADD_RULES);
    const all = someOf("vault.add", "add", what).map((one) => (one instanceof URL ? one.href : one));
    for (const one of all) if (typeof one !== "string") checkNewEntry("vault.add", one);
    return writer.add(all, options);
  }

  /** Stores one file from data. */
  async write(path: string, data: EntryData, options: AddOptions = {}): Promise<VaultAddResult> {
    const writer = this.#entryWriter("write", options, ADD_RULES);
    checkNewEntry("vault.write", { path, data });
    return writer.add([{ path, data }], options);
  }

  /** Makes directories, with those above them. */
  async mkdir(paths: OneOrMany<string>, options: ChangeOptions = {}): Promise<VaultMkdirResult> {
    const writer = this.#entryWriter("mkdir", options, CHANGE_RULES);
    return writer.mkdir(checkTexts("vault.mkdir", "paths", someOf("vault.mkdir", "make", paths)), options);
  }

  /** Removes entries: all of them, or none. */
  async remove(paths: OneOrMany<string>, options: RemoveOptions = {}): Promise<VaultRemoveResult> {
    const writer = this.#entryWriter("remove", options, REMOVE_RULES);
    return writer.remove(checkTexts("vault.remove", "paths", someOf("vault.remove", "remove", paths)), options);
  }

  /** Gives an entry, and everything below it, another path, or puts it into a directory. */
  async move(from: string, to: string, options: ChangeOptions = {}): Promise<VaultMoveResult> {
    const writer = this.#entryWriter("move", options, CHANGE_RULES);
    checkTexts("vault.move", "paths", [from, to]);
    return writer.move(from, to, options);
  }

  /** Adds a second entry with the same contents, which are not stored again. */
  async copy(from: string, to: string, options: ChangeOptions = {}): Promise<VaultCopyResult> {
    const writer = this.#entryWriter("copy", options, CHANGE_RULES);
    checkTexts("vault.copy", "paths", [from, to]);
    return writer.copy(from, to, options);
  }

  /** Gives the vault another password; with `rekey` also new keys, with which every block is encrypted again. */
  async changePassword(newPassword: Password, options: ChangePasswordOptions = {}): Promise<VaultPasswordResult> {
    const writer = this.#whole("changePassword", options, PASSWORD_RULES);
    checkPassword("vault.changePassword", newPassword);
    return writer.changePassword(newPassword, options);
  }

  /** Writes the vault again without what no entry uses. */
  async compact(options: ChangeOptions = {}): Promise<VaultCompactResult> {
    return this.#whole("compact", options, CHANGE_RULES).compact(options);
  }

  /**
   * Many changes, one commit: holds the lock, collects the changes that `work` makes of the vault that it is given, and
   * commits them at the end. If `work` throws or the signal aborts, nothing has changed. Reads see the vault as it was.
   */
  async batch<T>(work: (vault: Vault) => Promise<T>, options: ChangeOptions = {}): Promise<T> {
    const writer = this.#whole("batch", options, CHANGE_RULES);
    if (typeof work !== "function") {
      const message = "Cannot use the work of vault.batch: must be a function";
      throw new UsageError("usage/option-value", message, { source: "vault.batch", path: "work" });
    }
    return writer.batch(async (batch) => {
      const inside = make({ ...this.#parts, writer: undefined, batch });
      try {
        return await work(inside);
      } finally {
        inside.#isOver = true;
      }
    }, options);
  }

  /** What `tare vault create --json` prints; also of a vault that is closed. */
  toJSON(): VaultCreateResult {
    return this.#parts.summary(this.#parts.held?.last);
  }

  /** Wipes the keys and releases the file. It commits nothing, and may be called twice. */
  async close(): Promise<void> {
    const { batch, writer, held } = this.#parts;
    // The vault of a batch is a view of the one that it was made of.
    if (batch !== undefined) this.#isOver = true;
    else {
      writer?.close();
      await held?.close();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** A host for one call. */
  get #host(): VerbHost {
    this.#held.check();
    const { host } = this.#parts;
    return host.fork?.() ?? host;
  }

  get #held(): HeldArchive {
    const { held } = this.#parts;
    if (held !== undefined && !this.#isOver) return held;
    const message = `Cannot use the vault "${printable(this.label)}": it is closed`;
    throw new UsageError("usage/vault.closed", message, { source: this.label });
  }

  #entryWriter(verb: string, options: ChangeOptions, rules: OptionRules): EntryWriter {
    return this.#checked(verb, options, rules, this.#parts.batch ?? this.#parts.writer);
  }

  /** The writer for what a batch cannot have. */
  #whole(verb: string, options: ChangeOptions, rules: OptionRules): VaultWriter {
    const { batch, writer } = this.#parts;
    if (batch === undefined) return this.#checked(verb, options, rules, writer);
    const message = `Cannot call vault.${verb} in a batch`;
    const hint = "Call it on the vault itself, before the batch or after it";
    throw new UsageError("usage/vault.batch", message, { source: this.label }, { hint });
  }

  #checked<W>(verb: string, options: ChangeOptions, rules: OptionRules, writer: W | undefined): W {
    check(verb, options, rules);
    this.#held.check();
    if (writer !== undefined) return writer;
    const message = `Cannot call vault.${verb}: "${printable(this.label)}" can only be read`;
    const hint = "Only a vault of version 3 that is opened by its path, in Node, can be changed";
    throw new UsageError("usage/vault.read-only", message, { source: this.label }, { hint });
  }
}

/** Makes a Vault of what a runtime has opened. */
export const vaultOver = (parts: VaultParts): Vault => make(parts);

function check(verb: string, options: object, rules: OptionRules): void {
  checkOptions(`vault.${verb}`, options, rules);
  (options as ChangeOptions).signal?.throwIfAborted();
}
