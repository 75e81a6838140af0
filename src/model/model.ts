/// <reference lib="esnext.disposable" preserve="true" />
import { type TareError, UsageError } from "../base/errors.ts";
import type { Extent } from "../bytes/extents.ts";
import type { Source } from "../bytes/source.ts";
import type { Finding, Loss } from "./finding.ts";
import type { Metadata } from "./metadata.ts";
import type { Tensor } from "./tensor.ts";

/** One physical file of a container. */
export interface Part {
  readonly label: string;
  readonly byteLength: number;
  readonly source: Source;
  /** "unplaced" if the file was not opened yet: its layout is not known, and its length may be only a claim. */
  readonly layout?: "unplaced" | undefined;
}

/**
 * What a tensor's bytes are checked against before they are returned. "authenticated": by nothing of their own format,
 * but by the tags of the encrypted vault that they are in.
 */
export type Verification = "pages" | "tensor" | "authenticated" | "unverified";

/**
 * Data that a file holds in addition to its model, and that only its own format has a place for. It is written again as
 * it is, or lost. Formats extend this type.
 */
export interface Beside {
  /** Id of the format that has a place for it. */
  readonly format: string;
  /** What is lost if it is not taken along. */
  readonly losses: readonly { readonly name: string; readonly reason: string }[];
}

/** Tensors and metadata, opened: the control region is in memory, the weights are not. `await using` closes it. */
export interface Model extends AsyncDisposable {
  readonly kind: "model";
  /** Format id: "gguf". */
  readonly format: string;
  /** As people write it: "3", "0.1"; undefined if the format has no version. */
  readonly version: string | undefined;
  /** The file or files; one for single-file models. */
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  /** In the order of the file's index. */
  readonly tensors: readonly Tensor[];
  /** What was tolerated on opening. */
  readonly warnings: readonly Finding[];
  /**
   * Present for a model whose end is missing, opened for a caller that shows such. Every tensor is listed; reading what
   * is not there fails.
   */
  readonly cutShort?: Finding | undefined;
  /** Data of the file that opening could not interpret; a conversion would lose it. */
  readonly unread?: readonly { readonly name: string; readonly reason: string }[] | undefined;
  /** Data that a conversion to the same format can take along. */
  readonly beside?: Beside | undefined;
  /** Data of such files that no conversion takes, as sentences; shown as notes. */
  readonly staysBehind?: readonly string[] | undefined;
  /**
   * Runs of the files that are stored with a tensor but are not part of it, such as padding that an index counts as
   * data.
   */
  readonly slack?: readonly (Extent & { readonly part: number })[] | undefined;
  /** Facts of the format worth a line in `inspect`: ["byte order", "big-endian"]. */
  readonly facts: readonly (readonly [string, string])[];
  /** Throws `usage/tensor-not-found`, with near names as the hint. */
  tensor(name: string): Tensor;
  /** Present if the format can carry digests that reads are checked against. */
  verificationOf?(tensor: Tensor): Verification;
  /**
   * Present if a digest covers more than single reads: one of a whole file, in it or in another file, or of a whole
   * shard. Compares everything read so far with it, and throws if it differs. Callers call it before they publish what
   * they read.
   */
  prove?(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /**
   * Present if a quick look at a file can tell that it is not the one that another file states; then it throws.
   * Differences that only a full read can find are left to `prove`.
   */
  checkPart?(label: string, options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** True if `prove` compared the bytes of this tensor with a digest, although reading it compared nothing. */
  isProven?(tensor: Tensor): boolean;
  /**
   * Present if the file has digests of its header, tables or metadata. Compares them; returns what differs, and errors
   * of digests that cannot be read. Reading tolerates such damage, because the weights may be sound; a conversion would
   * make it look sound.
   */
  findDamage?(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly TareError[]>;
  /** Present if files can hold more that a conversion would lose, which opening does not read. Looks for it. */
  findSurplus?(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly Loss[]>;
  /** What `prove` does not cover in the open files, as sentences; shown as notes. */
  readonly unproven?: readonly string[] | undefined;
  /**
   * Present if files are opened only when read. Opens them all, so that offsets and sections are those of the files.
   */
  openParts?(): Promise<void>;
  /**
   * Present together with `openParts`. Opens the files of one label; then the sources of their tensors state their
   * location.
   */
  openPart?(label: string): Promise<void>;
  /** Closes the sources of all parts. */
  close(): Promise<void>;
}

/** Name lookup shared by every model. */
export class TensorIndex {
  readonly tensors: readonly Tensor[];
  readonly #label: string;
  #byName: ReadonlyMap<string, Tensor> | undefined;

  constructor(tensors: readonly Tensor[], label: string, byName?: ReadonlyMap<string, Tensor>) {
    this.tensors = tensors;
    this.#label = label;
    this.#byName = byName;
  }

  get(name: string): Tensor {
    this.#byName ??= new Map(this.tensors.map((tensor) => [tensor.name, tensor]));
    const found = this.#byName.get(name);
    if (found !== undefined) return found;
    const near = nearNames(name, this.#byName.keys());
    throw new UsageError(
      "usage/tensor-not-found",
      `Cannot find tensor "${name}"`,
      { source: this.#label },
      {
        hint:
          near.length === 0
            ? "List the tensors with: tare ls"
            : `Did you mean ${near.map((n) => `"${n}"`).join(", ")}?`,
      },
    );
  }
}

/** Up to three names that share most letters with `wanted`: cheap enough for 100 000 names. */
export function nearNames(wanted: string, names: Iterable<string>): string[] {
  const scored: { name: string; score: number }[] = [];
  const pairs = bigrams(wanted.toLowerCase());
  for (const name of names) {
    const lower = name.toLowerCase();
    const score = lower.includes(wanted.toLowerCase()) && wanted.length > 1 ? 1 : similarity(pairs, bigrams(lower));
    if (score > 0.55) scored.push({ name, score });
  }
  return scored
    .sort((a, b) => b.score - a.score)
    .slice(0, 3)
    .map((entry) => entry.name);
}

function bigrams(text: string): Set<string> {
  const pairs = new Set<string>();
  for (let i = 0; i + 1 < text.length; i++) pairs.add(text.slice(i, i + 2));
  return pairs;
}

/** Dice coefficient. */
function similarity(a: Set<string>, b: Set<string>): number {
  if (a.size + b.size === 0) return 0;
  let shared = 0;
  for (const pair of a) if (b.has(pair)) shared++;
  return (2 * shared) / (a.size + b.size);
}
