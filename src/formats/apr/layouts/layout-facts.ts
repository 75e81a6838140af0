import type { Location } from "../../../base/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import { dtypeFacts } from "../../../model/dtype.ts";
import type { Finding, Loss } from "../../../model/finding.ts";
import type { Section } from "../../../model/format.ts";
import type { Model } from "../../../model/model.ts";
import { FLAGS_64 } from "./layout.ts";

/** A CRC-32 over everything before it. */
export interface Checksum {
  /** Offset of its four bytes in `image`. */
  readonly offset: number;
  /** The field's name in docs/formats/apr-wild.md. */
  readonly path: string;
  /**
   * "possible" if the file ends with its data. If its last four bytes are the CRC of those before, a tensor claims
   * bytes that do not belong to it.
   */
  readonly certainty: "present" | "possible";
  /**
   * Its other possible offset: right after the padding of the last tensor, followed by bytes that belong to nothing.
   */
  readonly orAt?: number | undefined;
  /** Header flags that were set after the checksum was made: the checksum may be right without them. */
  readonly lateFlags?: number | undefined;
}

export interface WildFacts {
  /** What offsets, sections and the checksum refer to: the file, or what was unpacked from it. */
  readonly image: Source;
  /** Sections of the file itself. */
  readonly sections: readonly Section[];
  readonly checksum?: Checksum | undefined;
  /** Faults that opening tolerated and `verify` does not. */
  readonly faults: readonly Finding[];
}

/** What the readers of other programs' layouts keep for `verify` and sections; subclasses add their own facts. */
export class WildDetails implements WildFacts {
  readonly image: Source;
  readonly sections: readonly Section[];
  readonly checksum: Checksum | undefined;
  readonly faults: readonly Finding[];

  constructor(facts: WildFacts) {
    this.image = facts.image;
    this.sections = facts.sections;
    this.checksum = facts.checksum;
    this.faults = facts.faults;
  }
}

/** Keys under which a file of aprender has its vocabulary. */
export const VOCABULARY_KEYS: readonly string[] = ["tokenizer.vocabulary", "vocab"];

/**
 * A sentence about flags of the 64-byte header that a conversion leaves behind: those that do not follow from tensors
 * and metadata. They promise what no program keeps, so they are no loss.
 */
export function flagsLeft(flags: number, { tensors, metadata }: Pick<Model, "tensors" | "metadata">): string[] {
  const followed: readonly string[] = [
    "LAYOUT_ROW_MAJOR",
    ...(tensors.some(({ dtype }) => dtypeFacts(dtype).layout !== "plain") ? ["QUANTIZED"] : []),
    ...(VOCABULARY_KEYS.some((key) => metadata.get(key) !== undefined) ? ["HAS_VOCAB"] : []),
  ];
  const left = FLAGS_64.decode(flags).filter((name) => !followed.includes(name));
  return left.length === 0
    ? []
    : [`flags of the header stay behind, as nothing in the file bears them out: ${left.join(", ")}`];
}

/** More findings of one kind do not help: the rest becomes one line. */
const MOST_OF_ONE_CODE = 20;

/** Collects what an opening tolerates: warnings, and faults that verify will call errors. */
export class Tolerated {
  readonly #findings: { readonly finding: Finding; readonly grade: "warning" | "fault" }[] = [];
  readonly #counts = new Map<string, number>();
  readonly #losses: Loss[] = [];

  /** For something odd and harmless. */
  warn(code: string, message: string, at: Location, more: Pick<Finding, "name" | "hint"> = {}): void {
    this.#add("warning", { severity: "warning", code, message, at, ...more });
  }

  /** For something wrong in a file that can still be read. */
  fault(code: string, message: string, at: Location, more: Pick<Finding, "name" | "hint"> = {}): void {
    this.#add("fault", { severity: "warning", code, message, at, ...more });
  }

  /** For something that was read and has no place in any other file: a conversion must report it. */
  lose(name: string, reason: string): void {
    this.#losses.push({ name, reason });
  }

  get losses(): readonly Loss[] {
    return this.#losses;
  }

  get warnings(): readonly Finding[] {
    return this.#findings.map(({ finding }) => finding);
  }

  get faults(): readonly Finding[] {
    return this.#findings.filter(({ grade }) => grade === "fault").map(({ finding }) => finding);
  }

  #add(grade: "warning" | "fault", finding: Finding): void {
    const count = (this.#counts.get(finding.code) ?? 0) + 1;
    this.#counts.set(finding.code, count);
    if (count <= MOST_OF_ONE_CODE) this.#findings.push({ finding, grade });
  }
}
