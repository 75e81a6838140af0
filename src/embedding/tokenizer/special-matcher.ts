import type { Vocabulary } from "../../model/bert/vocabulary.ts";

/** A token that is recognised in the text as it was typed, before anything is normalised. */
export interface SpecialToken {
  readonly token: string;
  readonly id: number;
}

/** Finds [PAD], [UNK], [CLS], [SEP] and [MASK] in a text: exact, case-sensitive, longest first, no spaces needed. */
export class SpecialMatcher {
  readonly #tokens: readonly SpecialToken[];
  readonly #firstUnits: ReadonlySet<number>;

  constructor({ tokens, special }: Vocabulary) {
    const ids = new Set([special.pad, special.unk, special.cls, special.sep, special.mask]);
    this.#tokens = [...ids]
      .map((id) => ({ id, token: tokens[id] ?? "" }))
      .filter(({ token }) => token !== "")
      .sort((a, b) => b.token.length - a.token.length);
    this.#firstUnits = new Set(this.#tokens.map(({ token }) => token.charCodeAt(0)));
  }

  /** Cheap: false for nearly every unit of a text. */
  mayBeginWith(unit: number): boolean {
    return this.#firstUnits.has(unit);
  }

  matchAt(text: string, position: number): SpecialToken | undefined {
    return this.#tokens.find(({ token }) => text.startsWith(token, position));
  }
}
