import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/hex.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import { AeroModel, aero } from "../../formats/aero/index.ts";
import type { Engine } from "../../primitives/engine.ts";
import { decodeJournal, encodeJournalHeader } from "./journal.ts";
import { hashedExtents, type PagedRun, type Piece, planPieces } from "./pieces.ts";
import { type OpenedRemote, versionOf } from "./remote.ts";
import type { PartialFile } from "./store.ts";

/** What the file itself can be compared with. */
export type Comparison =
  /** Every byte of weights has a page digest. */
  | "pages"
  /** An AERO file with chunk digests only. */
  | "chunks"
  | "nothing";

/** A file cut into pieces, before any of them is fetched. */
export interface FileLayout {
  readonly pieces: readonly Piece[];
  readonly comparison: Comparison;
  /** Names this very version of the file; undefined where nothing does, and an unfinished pull cannot go on. */
  readonly identity: string | undefined;
}

export interface LayoutOptions {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal: AbortSignal;
  /** From an index. */
  readonly sha256: string | undefined;
}

/** Bytes of the beginning that go into a file's identity. */
const HEAD_BYTES = 64 << 10;

/** Reads the page digests of an AERO file, and cuts any file into pieces. */
export async function readLayout(opened: OpenedRemote, options: LayoutOptions): Promise<FileLayout> {
  const { source } = opened;
  const { engine, signal, sha256 } = options;
  const head = await source.read(0, Math.min(HEAD_BYTES, source.byteLength), { signal });
  const isAero = aero.sniff({ bytes: head, byteLength: source.byteLength, name: "" }) === "yes";
  const runs = isAero ? await readPages(source, options) : undefined;
  const pieces = planPieces(source.byteLength, runs?.paged ?? []);
  const comparison = runs === undefined ? "nothing" : runs.bare === 0 ? "pages" : "chunks";
  let name = sha256 === undefined ? versionOf(opened.validators) : `sha256 ${sha256}`;
  if (sha256 === undefined && runs !== undefined && runs.bare === 0) {
    // The digests of all pages and the tables name the content wherever it comes from.
    const known = concatBytes([head, ...runs.paged.map(({ digests }) => digests)]);
    name = `pages ${encodeHex(await engine.digest("blake3", known))}`;
  }
  const identity = name === undefined ? undefined : `${source.byteLength} ${name}`;
  return { pieces, comparison, identity };
}

interface Runs {
  readonly paged: readonly PagedRun[];
  /** Shards without pages. */
  readonly bare: number;
}

async function readPages(source: Source, { engine, limits, signal }: LayoutOptions): Promise<Runs> {
  const model = await aero.open(source, { engine, limits, signal });
  if (!(model instanceof AeroModel)) return { paged: [], bare: 1 };
  const { shards } = model.content;
  const paged: PagedRun[] = [];
  let bare = shards.hidden.length;
  for (const chunk of shards.weights.values()) {
    const pages = await shards.named(chunk.name).readPages(signal);
    if (pages === undefined) bare++;
    else {
      const { offset, byteLength } = chunk;
      paged.push({ offset, byteLength, pageBytes: pages.pageBytes, digests: pages.digests });
    }
  }
  return { paged, bare };
}

/** Which pieces of an earlier run can be kept: each is read again and compared. Else the file begins anew. */
export async function resumePieces(
  partial: PartialFile,
  { pieces, identity }: FileLayout,
  { engine, signal }: { readonly engine: Engine; readonly signal: AbortSignal },
): Promise<Set<number>> {
  const journal = decodeJournal(await partial.readJournal());
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
