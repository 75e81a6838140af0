import { FormatError, IntegrityError, type Location } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import { printable } from "../../base/text.ts";
import { DelegatingSource } from "../../bytes/layers/base.ts";
import { runOf, type SliceSource, sliceSource, type WithinSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { DType } from "../../model/dtype.ts";
import { equalShapes, formatShape, type Shape } from "../../model/dtype.ts";
import type { Verification } from "../../model/model.ts";
import { storedEnd, Tensor } from "../../model/tensor.ts";
import { FOURCC, shardName } from "../aero/layout.ts";
import type { AeroModel } from "../aero/model.ts";
import { verificationBy } from "../aero/tensors.ts";
import { HashedTensorReader } from "../aero/weights/hashed-tensor.ts";
import type { Shard } from "../aero/weights/shards.ts";
import { ProvenRuns, type StatedTensor } from "./proven-runs.ts";
import type { SetPart } from "./set-file.ts";

/** A tensor as the global index describes it. */
export interface GlobalEntry {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
  /** Global number of its shard. */
  readonly shardId: number;
  readonly dataOff: number;
  readonly dataLen: number;
  /** 64 lower-case hex digits. */
  readonly hash: string | undefined;
}

/** A tensor found in its part; offset and reader belong to the file. */
export interface PlacedTensor {
  readonly tensor: Tensor;
  readonly verification: Verification;
  /** The part's own digest for it. */
  readonly ownHash: string | undefined;
  /** The number of its shard in the part's own index; undefined if that index lacks the tensor. */
  readonly ownShard: number | undefined;
}

/** What the JSON says about the part. */
interface StatedPart {
  readonly entry: SetPart;
  readonly label: string;
}

/**
 * Finds the tensors of the global index in one opened part. Some parts number their shards globally, as the
 * specification says, others from 0, as the reference writes them. Looking up the name in the part's own index works
 * for both.
 */
export class PartTensors {
  readonly #part: StatedPart;
  readonly #model: AeroModel;
  #places: ReadonlyMap<string, number> | undefined;
  #hashes: ReadonlyMap<string, string> | undefined;
  /** The k-th WTSH chunk by the k-th number of `parts[].shards`. */
  #inOrder: ReadonlyMap<number, Shard> | undefined;
  #claims: Claims | undefined;
  /** Shards that are read by their pages and by the digests of the index. */
  #runs: ReadonlyMap<Shard, Runs> | undefined;
  #takesUnstated: "some" | undefined;

  constructor(part: StatedPart, model: AeroModel) {
    this.#part = part;
    this.#model = model;
  }

  /** Throws if the part has no bytes for the tensor, or describes it differently. */
  find(entry: GlobalEntry): PlacedTensor {
    if (entry.hash === undefined && entry.byteLength > 0) this.#takesUnstated = "some";
    this.#places ??= new Map(this.#model.tensors.map(({ name }, i) => [name, i]));
    const place = this.#places.get(entry.name);
    return place === undefined ? this.#findByShard(entry) : this.#findByName(entry, place);
  }

  /** "some" if tensors without a digest in the index were found here: only a digest of the whole file proves them. */
  get unstated(): "some" | undefined {
    return this.#takesUnstated;
  }

  /** Compares with the index what was read only in parts; throws if it differs. */
  async prove(signal: AbortSignal | undefined): Promise<void> {
    for (const { source } of this.#runs?.values() ?? []) await source.prove(signal);
  }

  #findByName(entry: GlobalEntry, place: number): PlacedTensor {
    const { index } = this.#model.content;
    const own = this.#model.tensors[place] as Tensor;
    const shard = index.shards[place] as Shard;
    this.#hashes ??= new Map(index.hashes.map(({ tensor, hash }) => [tensor.name, hash]));
    const ownHash = this.#hashes.get(entry.name);
    const found = { tensor: own, ownHash, ownShard: shard.id };
    if (shard.problem !== undefined) return { ...found, verification: "unverified" }; // reading it gives the reason
    this.#checkAgreement(entry, own);
    this.#checkHashes(entry, ownHash, own);
    if (ownHash === undefined) return { ...found, ...this.#checked(entry, own, shard) };
    if (shard.pages === undefined) return { ...found, verification: "tensor" };
    if (entry.hash === undefined) return { ...found, verification: "pages" };
    const tensor = this.#inRuns(own, shard);
    // If bytes belong to several tensors, or to none, runs do not show which tensor was read whole.
    if (tensor === undefined) return { ...found, ...this.#checked(entry, own, shard) };
    return { ...found, tensor, verification: "pages" };
  }

  /** The part's index lacks the tensor: finds its shard by global name, else by its place among the part's shards. */
  #findByShard(entry: GlobalEntry): PlacedTensor {
    const { name, dtype, shape, byteLength, dataOff, dataLen } = entry;
    const shard = this.#shardOf(entry.shardId);
    if (shard?.chunk === undefined) throw this.#missing(entry);
    const { chunk } = shard;
    const at = this.#at(entry, chunk.offset);
    if (checkedAdd(dataOff, dataLen, at) > chunk.byteLength) {
      const message = `Cannot read tensor "${printable(name)}": data_off + data_len of the set's index must be <= ${chunk.byteLength}, the length of "${printable(chunk.name)}", found ${dataOff + dataLen}`;
      throw new FormatError("format/aeroset.tensor-bounds", message, at);
    }
    const facts = { name, dtype, shape, byteLength, offset: chunk.offset + dataOff, storedByteLength: dataLen };
    const tensor = new Tensor(facts, shard);
    if (entry.hash === undefined) this.#checkUnclaimed(entry, tensor);
    return { ownHash: undefined, ownShard: undefined, ...this.#checked(entry, tensor, shard) };
  }

  #shardOf(id: number): Shard | undefined {
    const { shards, control } = this.#model.content;
    if (shards.weights.has(shardName(id))) return shards.get(id);
    if (this.#inOrder === undefined) {
      const chunks = control.toc.chunks.filter((chunk) => chunk.fourcc === FOURCC.weights);
      this.#inOrder = new Map(
        this.#part.entry.shards.flatMap((shard, k) => {
          const chunk = chunks[k];
          return chunk === undefined ? [] : [[shard, shards.named(chunk.name)] as const];
        }),
      );
    }
    return this.#inOrder.get(id);
  }

  /**
   * The part has no digest of the tensor to compare with the set's. Its pages prove that the part is undamaged, but not
   * that the index was made for it. So if the index has a digest, that one decides.
   */
  #checked(entry: GlobalEntry, plain: Tensor, { pages }: Shard): Pick<PlacedTensor, "tensor" | "verification"> {
    const { hash } = entry;
    if (hash === undefined) return { tensor: plain, verification: pages === undefined ? "unverified" : "pages" };
    const { source, limits, shards } = this.#model.content;
    const { name, offset, storedByteLength } = plain;
    const stored = sliceSource(source, offset, storedByteLength);
    const { engine, spool } = shards.context;
    const maxBytes = limits.verifyBytes;
    const reader = new HashedTensorReader({ name, hash, stored, offset, engine, maxBytes, spool });
    return { tensor: new Tensor(plain, reader), verification: "tensor" };
  }

  /** Any run is compared with the part's pages; the whole tensor with the index's digest, which the part has too. */
  #inRuns(own: Tensor, shard: Shard): Tensor | undefined {
    this.#runs ??= this.#makeRuns();
    const runs = this.#runs.get(shard);
    if (runs === undefined || !runs.names.has(own.name)) return undefined;
    const start = own.offset - (shard.chunk?.offset ?? 0);
    const run = (): SliceSource => sliceSource(runs.source, start, own.byteLength);
    const isLonely = verificationBy("stated", own.byteLength, shard) === "tensor";
    return new Tensor(own, { source: isLonely ? () => new LonelySource(own.source(), run()) : run });
  }

  #makeRuns(): ReadonlyMap<Shard, Runs> {
    const { index, shards } = this.#model.content;
    const byShard = new Map<Shard, (StatedTensor & { readonly whole: Source })[]>();
    for (const { tensor, shard, hash } of index.hashes) {
      const { name, byteLength, storedByteLength } = tensor;
      const { chunk, pages } = shard;
      if (chunk === undefined || pages === undefined || shard.problem !== undefined) continue;
      const whole = runOf(shard.source(tensor))?.whole;
      if (whole === undefined || byteLength === 0 || byteLength !== storedByteLength) continue;
      const start = tensor.offset - chunk.offset;
      const list = byShard.get(shard);
      const stated = { name, start, end: start + byteLength, hash, whole };
      if (list === undefined) byShard.set(shard, [stated]);
      else list.push(stated);
    }
    const { engine } = shards.context;
    return new Map(
      [...byShard].map(([shard, list]) => {
        const tensors = disjoint(list);
        const place = { engine, offset: shard.chunk?.offset ?? 0 };
        const source = new ProvenRuns((list[0] as (typeof list)[number]).whole, tensors, place);
        return [shard, { source, names: new Set(tensors.map(({ name }) => name)) }];
      }),
    );
  }

  #checkAgreement(entry: GlobalEntry, own: Tensor): void {
    const isSame =
      own.dtype === entry.dtype && own.storedByteLength === entry.dataLen && equalShapes(own.shape, entry.shape);
    if (isSame) return;
    const global = `${entry.dtype} ${formatShape(entry.shape)} of ${entry.dataLen} bytes`;
    const local = `${own.dtype} ${formatShape(own.shape)} of ${own.storedByteLength} bytes`;
    const message = `Cannot read tensor "${printable(entry.name)}": the set's index has ${global}, "${printable(this.#part.label)}" has ${local}`;
    throw new FormatError("format/aeroset.disagreement", message, this.#at(entry, own.offset), {
      hint: "A part was replaced without its index, or the other way round",
    });
  }

  #checkHashes(entry: GlobalEntry, ownHash: string | undefined, own: Tensor): void {
    if (ownHash === undefined || entry.hash === undefined || ownHash === entry.hash) return;
    const message = `Tensor "${printable(entry.name)}" is not the one of the set: hash_b3 must be ${entry.hash}, "${printable(this.#part.label)}" has ${ownHash}`;
    throw new IntegrityError("integrity/aeroset.other-tensor", message, this.#at(entry, own.offset), {
      hint: "A part was replaced without its index, or the other way round",
    });
  }

  /** Bytes that the part's own index gives to other tensors cannot be this one's: parts were mixed up. */
  #checkUnclaimed(entry: GlobalEntry, { offset, storedByteLength }: Tensor): void {
    this.#claims ??= new Claims(this.#model.tensors);
    const other = this.#claims.within(offset, storedByteLength);
    if (other === undefined) return;
    const message = `Cannot read tensor "${printable(entry.name)}": "${printable(this.#part.label)}" has "${printable(other.name)}" in its place`;
    throw new FormatError("format/aeroset.other-part", message, this.#at(entry, offset), {
      hint: "Parts of the set were mixed up, or are listed with each other's shards",
    });
  }

  #missing(entry: GlobalEntry): FormatError {
    const message = `Cannot read tensor "${printable(entry.name)}": shard ${entry.shardId} must be in "${printable(this.#part.label)}", found neither the tensor nor the shard there`;
    return new FormatError("format/aeroset.missing-tensor", message, this.#at(entry, 0));
  }

  #at({ name }: GlobalEntry, offset: number): Location {
    return { source: this.#model.content.source.label, offset, path: name };
  }
}

/** A shard, for reading its tensors. */
interface Runs {
  readonly source: ProvenRuns;
  /** The tensors that `source` compares. */
  readonly names: ReadonlySet<string>;
}

/** Those that share no byte with another one, in their order in the shard. */
function disjoint<T extends StatedTensor>(tensors: readonly T[]): T[] {
  const sorted = [...tensors].sort((a, b) => a.start - b.start);
  let reach = 0;
  return sorted.filter(({ start, end }, i) => {
    const isAlone = start >= reach && (sorted[i + 1]?.start ?? end) >= end;
    reach = Math.max(reach, end);
    return isAlone;
  });
}

/** A tensor much smaller than a page: read alone it is checked by its own digest, with its neighbours by pages. */
class LonelySource extends DelegatingSource implements WithinSource {
  readonly within: SliceSource;

  constructor(alone: Source, within: SliceSource) {
    super(alone);
    this.within = within;
  }
}

/** The bytes of a part that its own index gives to tensors. */
export class Claims {
  readonly #sorted: readonly Tensor[];
  /** For each tensor in order, the one up to it that ends last: tensors may share bytes. */
  readonly #furthest: readonly Tensor[];

  constructor(tensors: readonly Tensor[]) {
    this.#sorted = tensors.filter(({ storedByteLength }) => storedByteLength > 0).sort((a, b) => a.offset - b.offset);
    let furthest: Tensor | undefined;
    this.#furthest = this.#sorted.map((tensor) => {
      if (furthest === undefined || storedEnd(tensor) > storedEnd(furthest)) furthest = tensor;
      return furthest;
    });
  }

  /** A tensor with bytes in the run, or undefined. An empty run has no bytes. */
  within(offset: number, byteLength: number): Tensor | undefined {
    if (byteLength === 0) return undefined;
    const end = offset + byteLength;
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#sorted[middle] as Tensor).offset < end) low = middle + 1;
      else high = middle;
    }
    const last = this.#furthest[low - 1];
    return last !== undefined && storedEnd(last) > offset ? last : undefined;
  }
}
