import type { Bytes } from "../base/bytes.ts";
import type { TareError } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import { checkRange } from "../bytes/extents.ts";
import { DelegatingSource } from "../bytes/layers/base.ts";
import { sliceSource } from "../bytes/slice.ts";
import type { ReadOptions, Source, StreamOptions } from "../bytes/source.ts";
import { type Finding, findingFromError } from "./finding.ts";
import type { Tensor } from "./tensor.ts";

/** A model whose end is missing: its tables are whole, so everything is known of it, and some of it can be read. */

/** One file that ends before its tables say so. */
export interface CutFile {
  readonly source: Source;
  /** The error of opening it as a whole. */
  readonly fault: TareError;
  readonly tensors: readonly Tensor[];
}

/** Names that a message lists; the number says how many more there are. */
const MAX_NAMED = 8;

/** What is missing of the files of a model with `count` tensors; undefined if nothing is. */
export function cutShortFinding(files: readonly CutFile[], count: number): Finding | undefined {
  const [first] = files;
  if (first === undefined) return undefined;
  const missing = files.reduce((sum, { source, fault }) => sum + (fault.neededBytes ?? 0) - source.byteLength, 0);
  const lost = files.flatMap(({ source, tensors }) => tensors.filter((tensor) => !isThere(tensor, source)));
  const names = lost.slice(0, MAX_NAMED).map(({ name }) => `"${printable(name)}"`);
  const more = lost.length > MAX_NAMED ? ` and ${lost.length - MAX_NAMED} more` : "";
  const what = `all or part of ${lost.length} of ${count} tensors: ${names.join(", ")}${more}`;
  const message = `The last ${missing} bytes are missing, and with them ${what}; the rest can be read`;
  return { ...findingFromError(first.fault, "warning"), message };
}

function isThere({ offset, byteLength }: Pick<Tensor, "offset" | "byteLength">, { byteLength: end }: Source): boolean {
  return byteLength === 0 || offset + byteLength <= end;
}

/** The bytes of a tensor, as far as the file has them; reading the others fails with `fault`. */
export function presentBytes(
  source: Source,
  tensor: Pick<Tensor, "offset" | "byteLength">,
  fault: TareError | undefined,
): Source {
  const { offset, byteLength } = tensor;
  if (fault === undefined || isThere(tensor, source)) return sliceSource(source, offset, byteLength);
  const start = Math.min(offset, source.byteLength);
  return cutSource(sliceSource(source, start, source.byteLength - start), byteLength, fault);
}

/** A source that is longer than what there is of it. No bytes are invented: reading missing ones fails. */
export function cutSource(present: Source, byteLength: number, fault: TareError): Source {
  return new CutSource(present, byteLength, fault);
}

class CutSource extends DelegatingSource {
  readonly #byteLength: number;
  readonly #fault: TareError;

  constructor(inner: Source, byteLength: number, fault: TareError) {
    super(inner);
    this.#byteLength = byteLength;
    this.#fault = fault;
  }

  override get byteLength(): number {
    return this.#byteLength;
  }

  /** A second open of the same file would find it shorter. */
  override get descriptor(): undefined {
    return undefined;
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    if (byteLength > 0 && offset + byteLength > this.inner.byteLength) throw this.#fault;
    return this.inner.read(Math.min(offset, this.inner.byteLength), byteLength, options);
  }

  override async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    const present = Math.max(0, Math.min(byteLength, this.inner.byteLength - offset));
    if (present > 0) yield* this.inner.stream(offset, { ...options, byteLength: present });
    if (present < byteLength) throw this.#fault;
  }
}
