import { FormatError, IntegrityError, type TareError } from "../../../base/errors.ts";
import { hex32, printable } from "../../../base/text.ts";
import type { Source } from "../../../bytes/source.ts";
import { Metadata } from "../../../model/metadata.ts";
import type { Engine } from "../../../primitives/engine.ts";
import type { AprModel } from "../model.ts";
import { specDetails } from "../model.ts";
import { decodeFooter, type FileChecksums } from "./header.ts";
import { fileFooter } from "./layout.ts";
import { type Manifest, SHARD_KEY, type ShardEntry } from "./manifest.ts";

/** What reading checksums needs. */
interface ChecksumContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
}

interface ProvenSet {
  /** Label of the manifest. */
  readonly source: string;
  readonly manifest: Manifest;
  /** In the order of `manifest.shards`. */
  readonly shards: readonly AprModel[];
  readonly engine: Engine;
}

/**
 * Checks that shards are those that the manifest names. Their footers answer at once. Whether the bytes match the
 * footer takes reading all of them; that is done before anything made of them is published.
 */
export class ShardProof {
  readonly #set: ProvenSet;
  readonly #read = new Set<number>();
  readonly #proven = new Set<number>();

  constructor(set: ProvenSet) {
    this.#set = set;
  }

  /** Notes that a tensor of the shard is being read. */
  noteRead(number: number): void {
    this.#read.add(number);
  }

  /** Throws if a shard of that name is from another set, as far as its metadata and its footer show. */
  async check(label: string, signal: AbortSignal | undefined): Promise<void> {
    for (const [number, { file }] of this.#set.manifest.shards.entries()) {
      if (file === label) await this.#glance(number, signal);
    }
  }

  /** Compares the shards that were read with the manifest: all bytes of local ones, only the footers of others. */
  async prove(signal: AbortSignal | undefined): Promise<void> {
    for (const number of this.#read) {
      if (this.#proven.has(number)) continue;
      await this.#glance(number, signal);
      const source = this.#localSource(number);
      if (source !== undefined) {
        this.#compare(number, await readChecksums(source, { engine: this.#set.engine, signal }));
      }
      this.#proven.add(number);
    }
  }

  /** Remote shards, which only reading all of their bytes would prove, and those of which the manifest has no CRC-32. */
  get unproven(): readonly string[] {
    const { shards } = this.#set.manifest;
    const bare = shards.filter(({ crc32 }) => crc32 === undefined);
    const far = shards.filter(({ crc32 }, i) => crc32 !== undefined && this.#localSource(i) === undefined);
    return [
      ...unprovenNote(bare, "cannot be proven to be of this set: the manifest has no CRC-32 of it"),
      ...unprovenNote(
        far,
        "cannot be proven to be of this set without reading all of it: at most the footer is compared with the manifest; check with: tare verify",
      ),
    ];
  }

  async #glance(number: number, signal: AbortSignal | undefined): Promise<void> {
    const { manifest, shards, engine } = this.#set;
    const shard = shards[number] as AprModel;
    const [wrong] = wrongNumbers(shard, manifest.shards[number] as ShardEntry, { index: number, count: shards.length });
    if (wrong !== undefined) throw wrong;
    if (shard.layout !== "spec") return;
    const { source, checksums } = specDetails(shard);
    const known = checksums ?? (await footerChecksums(source, { engine, signal }));
    if (known !== undefined) this.#compare(number, known);
  }

  #compare(number: number, checksums: FileChecksums): void {
    const { manifest, source } = this.#set;
    const strange = strangeShard(manifest.shards[number] as ShardEntry, number, checksums, source);
    if (strange !== undefined) throw strange;
  }

  /** Undefined if the manifest gives no CRC, or if reading all of the shard would cost a download. */
  #localSource(number: number): Source | undefined {
    if (this.#set.manifest.shards[number]?.crc32 === undefined) return undefined;
    const source = this.#set.shards[number]?.parts[0]?.source;
    return source?.descriptor === undefined ? undefined : source;
  }
}

function unprovenNote([first, ...others]: readonly ShardEntry[], why: string): readonly string[] {
  if (first === undefined) return [];
  return [`"${printable(first.file)}"${others.length === 0 ? "" : ` and ${others.length} more`} ${why}`];
}

/** The checksums of a file of any layout: a manifest may list others than the specification's. */
export async function readChecksums(source: Source, { engine, signal }: ChecksumContext): Promise<FileChecksums> {
  const end = Math.max(0, source.byteLength - fileFooter.byteLength);
  let crc = 0;
  for await (const piece of source.stream(0, { byteLength: end, signal })) crc = await engine.crc32(piece, crc);
  const tail = await source.read(end, source.byteLength - end, { signal });
  return { crc, fileCrc: await engine.crc32(tail, crc) };
}

/** The checksums that the footer implies; undefined if there is no valid footer. */
async function footerChecksums(
  source: Source,
  { engine, signal }: ChecksumContext,
): Promise<FileChecksums | undefined> {
  const tail = await source.read(source.byteLength - fileFooter.byteLength, fileFooter.byteLength, { signal });
  const { crc32, problem } = decodeFooter(tail, source.byteLength, source.label);
  return problem === undefined ? { crc: crc32, fileCrc: await engine.crc32(tail, crc32) } : undefined;
}

/** The error for a shard that is not the one the manifest names; undefined if it is, or if nothing shows it. */
export function strangeShard(
  { file, crc32 }: ShardEntry,
  number: number,
  { crc, fileCrc }: FileChecksums,
  source: string,
): IntegrityError | undefined {
  if (crc32 === undefined || crc32 === crc || crc32 === fileCrc) return undefined;
  const message = `The shard "${printable(file)}" is not the one of the set: its CRC-32 must be ${hex32(crc32)}, found ${hex32(crc)}`;
  const at = { source, offset: 0, path: `shards[${number}].crc32` };
  const hint = "Download the shard again, or the whole set where it was replaced by another version";
  return new IntegrityError("integrity/apr.shard-crc", message, at, { hint });
}

/**
 * In older manifests the CRC-32 cannot tell two shards of one length apart: it covers the whole file, which ends with
 * its own CRC, so it depends only on the length. What a shard says about itself can tell them apart.
 */
export function wrongNumbers(
  { metadata }: AprModel,
  { file }: ShardEntry,
  wanted: { readonly index: number; readonly count: number },
): TareError[] {
  const value = metadata.get(SHARD_KEY);
  if (value?.type !== "map") return [];
  const own = new Metadata(value.entries);
  return Object.entries(wanted).flatMap(([key, number]) => {
    const found = own.number(key);
    if (found === undefined || found === number) return [];
    const message = `The shard "${printable(file)}" should have the ${key} ${number}, but says it is ${found}`;
    const at = { source: file, offset: 32, path: `metadata.${SHARD_KEY}.${key}` };
    return [new FormatError("format/apr.shard-number", message, at)];
  });
}
