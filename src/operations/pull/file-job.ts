import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { encodeHex } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { sniffFormat } from "../../formats/registry.ts";
import type { Format, PagedRun, StatedCrc } from "../../model/format.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { PullFile } from "./discover.ts";
import { checksumError, contentError, digestError } from "./errors.ts";
import { hashedExtents, type Piece, planPieces } from "./pieces.ts";
import { type OpenedRemote, type RemoteAddress, versionOf } from "./remote.ts";
import { decodeJournal, encodeJournalHeader, longestJournal, type PartialFile, type Replaced } from "./store.ts";
import { type FileTransfer, TAKEN_OVER } from "./transfer.ts";

/** The result of one file. */
export interface PulledFile {
  readonly path: string;
  readonly byteLength: number;
  /** Bytes that this run has fetched. */
  readonly fetchedBytes: number;
  /** Bytes that an earlier run had fetched. */
  readonly resumedBytes: number;
  readonly verified: Verified;
  /** Present if an index states it. */
  readonly sha256?: string | undefined;
}

/** The state of a file once it is opened. */
export interface Begun {
  readonly partial: PartialFile;
  readonly transfer: FileTransfer;
  readonly comparison: Comparison;
  readonly byteLength: number;
  readonly resumedBytes: number;
  readonly etag: string | undefined;
  /** Address to which redirects led for the file with that tag. */
  readonly via: string | undefined;
}

/** One file in progress, from being listed to being in place. */
export class FileJob {
  readonly file: PullFile;
  /** The URL's own copy first, then the mirrors'. */
  readonly addresses: readonly RemoteAddress[];
  readonly replaced: Replaced;
  state: "waiting" | "opening" | "active" | "finishing" | "done" = "waiting";
  begun: Begun | undefined;
  result: PulledFile | undefined;
  fetchedBytes = 0;
  /** Ends the work for the file other than its leases. One per file: a signal is slow with many listeners. */
  readonly #abort = new AbortController();
  /** Index of the address that is opened. */
  home = 0;
  #restarts = 0;
  #restart: { readonly home: number } | undefined;

  constructor(file: PullFile, addresses: readonly RemoteAddress[], replaced: Replaced) {
    this.file = file;
    this.addresses = addresses;
    this.replaced = replaced;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Stops everything for good. */
  stop(reason: unknown): void {
    this.#abort.abort(reason);
    for (const lease of this.begun?.transfer.leases ?? []) lease.stop(reason);
  }

  get isRestarting(): boolean {
    return this.#restart !== undefined;
  }

  /**
   * Starts the file again once its connections have ended: at the same server if the file there has changed, else at
   * the next one. "refused" if that was tried often enough.
   */
  restart(at: "same" | "next"): "accepted" | "refused" {
    if (this.#restart !== undefined) return "accepted";
    // Once for a file that changed, and once for every other copy.
    if (this.#restarts >= Math.max(1, this.addresses.length)) return "refused";
    this.#restarts++;
    this.#restart = { home: at === "same" ? this.home : (this.home + 1) % this.addresses.length };
    for (const lease of this.begun?.transfer.leases ?? []) lease.stop(TAKEN_OVER);
    return "accepted";
  }

  /** Puts the file back into the queue. */
  async requeue(): Promise<void> {
    const begun = this.begun;
    this.home = this.#restart?.home ?? this.home;
    this.#restart = undefined;
    this.begun = undefined;
    await begun?.partial.close();
    this.state = "waiting";
  }
}

/** What the file itself can be compared with. */
type Comparison =
  /** Every byte of weights has a page digest; the format checks the rest. */
  | { readonly by: "pages"; readonly format: Format }
  /** The format only has digests of longer runs, or of some runs. */
  | { readonly by: "chunks"; readonly format: Format }
  | { readonly by: "nothing" };

/** A file divided into pieces, before any of them is fetched. */
interface FileLayout {
  readonly pieces: readonly Piece[];
  readonly comparison: Comparison;
  /** Identifies this version of the file; undefined if nothing does. An unfinished pull then cannot continue. */
  readonly identity: string | undefined;
  /**
   * "digest" if the whole is compared with the index at the end, whatever its pieces. Otherwise only the journal
   * vouches for pieces of an earlier run, so this machine must have written it.
   */
  readonly proof: "digest" | "journal";
}

interface LayoutOptions {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal: AbortSignal;
  /** From an index. */
  readonly sha256: string | undefined;
}

/** Bytes from the start of a file that are part of its identity. */
const HEAD_BYTES = 64 << 10;

/** Reads the page digests of a file, if it has them, and divides the file into pieces. */
export async function readLayout(opened: OpenedRemote, options: LayoutOptions): Promise<FileLayout> {
  const { source } = opened;
  const { engine, signal, sha256 } = options;
  const head = await source.read(0, Math.min(HEAD_BYTES, source.byteLength), { signal });
  const { comparison, runs } = await compareBy(source, head, options);
  const pieces = planPieces(source.byteLength, runs);
  let name = sha256 === undefined ? versionOf(opened) : `sha256 ${sha256}`;
  if (sha256 === undefined && comparison.by === "pages") {
    // The digests of all pages together with the tables identify the content, from any server.
    const known = concatBytes([head, ...runs.map(({ digests }) => digests)]);
    name = `pages ${encodeHex(await engine.digest("blake3", known))}`;
  }
  const identity = name === undefined ? undefined : `${source.byteLength} ${name}`;
  return { pieces, comparison, identity, proof: sha256 === undefined ? "journal" : "digest" };
}

interface Compared {
  readonly comparison: Comparison;
  readonly runs: readonly PagedRun[];
}

async function compareBy(source: Source, head: Bytes, options: LayoutOptions): Promise<Compared> {
  const format = await sniffFormat({ bytes: head, byteLength: source.byteLength, name: "" });
  const reader = await format?.read();
  if (format === undefined || reader?.pageDigests === undefined) return { comparison: { by: "nothing" }, runs: [] };
  const { runs, coverage } = await reader.pageDigests(await reader.open(source, options), options.signal);
  return { comparison: { by: coverage === "all" ? "pages" : "chunks", format }, runs };
}

/**
 * The pieces of an earlier run that can be kept: each is read again and compared. Without any, the file starts again.
 */
export async function resumePieces(
  partial: PartialFile,
  layout: FileLayout,
  { engine, signal }: { readonly engine: Engine; readonly signal: AbortSignal },
): Promise<Set<number>> {
  const { pieces, proof } = layout;
  const sealed = partial.seal === undefined ? undefined : `${layout.identity} ${partial.seal}`;
  const identity = proof === "digest" || layout.identity === undefined ? layout.identity : sealed;
  const journal = decodeJournal(await partial.readJournal(longestJournal(pieces.length)));
  if (journal === undefined || identity === undefined || journal.identity !== identity) {
    await partial.reset(encodeJournalHeader(identity ?? ""));
    return new Set();
  }
  await partial.trimJournal(journal.byteLength);
  const claimed = new Map<number, Bytes>();
  for (const { index, check } of journal.records) if (index < pieces.length) claimed.set(index, check);
  if (claimed.size === 0) return new Set();
  const source = await partial.reopen(byteLengthOf(pieces));
  try {
    return await compare(source, pieces, claimed, { engine, signal });
  } finally {
    await source.close();
  }
}

function byteLengthOf(pieces: readonly Piece[]): number {
  const last = pieces.at(-1);
  return last === undefined ? 0 : last.offset + last.byteLength;
}

async function compare(
  source: Source,
  pieces: readonly Piece[],
  claimed: ReadonlyMap<number, Bytes>,
  { engine, signal }: { readonly engine: Engine; readonly signal: AbortSignal },
): Promise<Set<number>> {
  const sound = new Set<number>();
  const order = [...claimed.keys()].sort((a, b) => a - b);
  const extents = order.map((index) => hashedExtents(pieces[index] as Piece));
  const digests = await engine.digestExtents("blake3", source, extents.flat(), { signal });
  let position = 0;
  for (const [i, index] of order.entries()) {
    const count = extents[i]?.length ?? 0;
    const found = digests.slice(position, position + count);
    position += count;
    if (isSound(pieces[index] as Piece, found, claimed.get(index) as Bytes)) sound.add(index);
  }
  return sound;
}

function isSound({ pages }: Piece, found: readonly Bytes[], check: Bytes): boolean {
  if (pages !== undefined) return equalBytes(concatBytes(found), pages.digests);
  return equalBytes((found[0] as Bytes).subarray(0, check.byteLength), check);
}

/** What the bytes of a file were compared with before it was put in place. */
export type Verified = "pages" | "sha256" | "chunks" | "crc32" | "none";

interface FinishOptions {
  readonly label: string;
  readonly sha256: string | undefined;
  readonly crc32: StatedCrc | undefined;
  readonly comparison: Comparison;
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal: AbortSignal;
}

/** Compares a file that arrived completely with everything that is known about it; throws an IntegrityError. */
export async function checkArrived(source: Source, options: FinishOptions): Promise<Verified> {
  const { sha256, crc32, comparison, engine, signal, label } = options;
  if (sha256 !== undefined) {
    const range = { offset: 0, byteLength: source.byteLength, signal };
    const found = encodeHex(await engine.digestRange("sha256", source, range));
    if (found !== sha256) throw digestError(label, sha256, found);
    return comparison.by === "pages" ? "pages" : "sha256";
  }
  if (crc32 !== undefined) {
    const found = await findChecksum(source, crc32, options);
    if (found !== undefined) throw checksumError(label, hexOf(crc32.value), hexOf(found));
  }
  if (comparison.by === "nothing") return crc32 === undefined ? "none" : "crc32";
  // The pages were compared as they arrived. Header, tables and metadata are left.
  await checkContent(source, comparison.format, { ...options, level: comparison.by === "pages" ? "control" : "full" });
  return comparison.by;
}

/** The file's CRC-32 if it differs from the stated one; undefined if it matches, with or without the footer. */
export async function findChecksum(
  source: Source,
  { value, footerBytes }: StatedCrc,
  { engine, signal }: { readonly engine: Engine; readonly signal: AbortSignal },
): Promise<number | undefined> {
  const end = Math.max(0, source.byteLength - footerBytes);
  let before = 0;
  for await (const piece of source.stream(0, { byteLength: end, signal })) before = await engine.crc32(piece, before);
  if (before === value) return undefined;
  const footer = await source.read(end, source.byteLength - end, { signal });
  return (await engine.crc32(footer, before)) === value ? undefined : before;
}

function hexOf(crc: number): string {
  return crc.toString(16).padStart(8, "0");
}

type CheckOptions = FinishOptions & { readonly level: "control" | "full" };

async function checkContent(source: Source, format: Format, options: CheckOptions): Promise<void> {
  const { engine, limits, signal, label, level } = options;
  const context = { engine, limits, signal, level, count: () => undefined };
  try {
    const [reader, { verify }] = await Promise.all([format.read(), format.verify()]);
    const container = await reader.open(source, context);
    for await (const finding of verify(container, context)) {
      if (finding.severity === "error") throw contentError(label, finding.message, finding.at.offset);
    }
  } catch (error) {
    if (!isTareError(error) || error.code.startsWith("integrity/") || error.code.startsWith("source/")) throw error;
    throw contentError(label, error.message, error.at.offset);
  }
}
