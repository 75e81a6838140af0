import type { Location } from "../../../base/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Finding } from "../../../model/finding.ts";
import type { Section } from "../../../model/format.ts";

/** A CRC-32 over everything before it. */
export interface Checksum {
  /** Where its four bytes stand in `image`. */
  readonly offset: number;
  /** The field's name in docs/formats/apr-wild.md. */
  readonly path: string;
  /**
   * "possible" where the file ends with its data: if its last four bytes are the CRC of those before, a tensor claims
   * bytes that are none of its own.
   */
  readonly certainty: "present" | "possible";
  /** Where it may stand as well: behind the padding of the last tensor, with bytes of nobody behind it. */
  readonly orAt?: number | undefined;
  /** Bits of the header's flags that were set after the checksum was made: it may be right without them. */
  readonly lateFlags?: number | undefined;
}

export interface WildFacts {
  /** What offsets, sections and the checksum speak of: the file, or what was unpacked from it. */
  readonly image: Source;
  /** Of the file itself. */
  readonly sections: readonly Section[];
  readonly checksum?: Checksum | undefined;
  /** What opening tolerated and verifying does not. */
  readonly faults: readonly Finding[];
}

/** What the readers of other programs' layouts leave for verify and sections; subclasses add their own. */
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

/** More findings of one kind than this help nobody: the rest becomes one line. */
const MOST_OF_ONE_CODE = 20;

/** Collects what an opening tolerates: warnings, and faults that verify will call errors. */
export class Tolerated {
  readonly #findings: { readonly finding: Finding; readonly grade: "warning" | "fault" }[] = [];
  readonly #counts = new Map<string, number>();

  /** Odd, and harmless. */
  warn(code: string, message: string, at: Location, more: Pick<Finding, "name" | "hint"> = {}): void {
    this.#add("warning", { severity: "warning", code, message, at, ...more });
  }

  /** Wrong, although the file can still be read. */
  fault(code: string, message: string, at: Location, more: Pick<Finding, "name" | "hint"> = {}): void {
    this.#add("fault", { severity: "warning", code, message, at, ...more });
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
