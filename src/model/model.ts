import { UsageError } from "../base/errors.ts";
import type { Extent } from "../bytes/extents.ts";
import type { Source } from "../bytes/source.ts";
import type { Finding } from "./finding.ts";
import type { Metadata } from "./metadata.ts";
import type { Tensor } from "./tensor.ts";

/** One physical file of a container. */
export interface Part {
  readonly label: string;
  readonly byteLength: number;
  readonly source: Source;
  /** "unplaced" where the file was not looked at yet: what lies where in it is not known, its length may be a claim. */
  readonly layout?: "unplaced" | undefined;
}

/** What a tensor's bytes are compared with before they are handed out. */
export type Verification = "pages" | "tensor" | "unverified";

/** Tensors and metadata, opened: the control region is in memory, the weights are not. */
export interface Model {
  readonly kind: "model";
  /** Format id: "gguf". */
  readonly format: string;
  /** As people write it: "3", "0.1"; undefined where the format has no version. */
  readonly version: string | undefined;
  /** The file or files; one for single-file models. */
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  /** In the order of the file's index. */
  readonly tensors: readonly Tensor[];
  /** What was tolerated on opening. */
  readonly warnings: readonly Finding[];
  /** What the file holds and opening could not make sense of: a conversion would lose it. */
  readonly unread?: readonly { readonly name: string; readonly reason: string }[] | undefined;
  /** What such files hold and no conversion takes, as sentences: told as notes. */
  readonly staysBehind?: readonly string[] | undefined;
  /** Runs of the files that are stored with a tensor and are no part of it, such as padding that an index counts as data. */
  readonly slack?: readonly (Extent & { readonly part: number })[] | undefined;
  /** Facts of the format worth a line in `inspect`: ["byte order", "big-endian"]. */
  readonly facts: readonly (readonly [string, string])[];
  /** Throws `usage/tensor-not-found`, with near names as the hint. */
  tensor(name: string): Tensor;
  /** Present where the format can carry digests that reads are checked against. */
  verificationOf?(tensor: Tensor): Verification;
  /**
   * Present where another file states what this one is: compares everything that was read so far with that, and throws
   * where it is something else. Whoever publishes what was read asks first.
   */
  prove?(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** What `prove` leaves out of the files that are open, as sentences: told as notes. */
  readonly unproven?: readonly string[] | undefined;
  /** Present where files are opened only when read: opens them all, so that offsets and sections are those of the files. */
  openParts?(): Promise<void>;
  /** Present beside `openParts`: opens the files of one label, after which the sources of their tensors say where they lie. */
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

/** Up to three names that share most letters with the one asked for: cheap enough for 100 000 names. */
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
