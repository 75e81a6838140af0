import { FormatError, type Location } from "../../base/errors.ts";
import type { TokenList } from "./token-list.ts";
import type { Tolerance } from "./tolerance.ts";

/** The tokens in the order of the special block. */
export const SPECIAL_TEXTS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] as const;
/** Stands in a block for a token that the vocabulary does not have. */
export const NO_TOKEN = 0xffff_ffff;

/**
 * The five ids of a file. Where a token of that name exists elsewhere than the block says, the name is believed and the
 * block is reported; a vocabulary that spells them otherwise is left alone.
 */
export function settleSpecials(
  tokens: TokenList,
  stored: readonly number[] | undefined,
  at: Location,
  tolerance: Tolerance,
): readonly number[] | undefined {
  if (stored === undefined) {
    const message =
      "The special token indices must lie inside the vocabulary section: the ids are taken from the tokens";
    tolerance.warn(new FormatError("format/embd.special-tokens", message, at));
    return specialsByText(tokens);
  }
  return stored.map((id, i) => {
    const text = SPECIAL_TEXTS[i] as string;
    if (id < tokens.length && tokens.text(id) === text) return id;
    const found = tokens.find(text);
    if (found === undefined && id < tokens.length) return id;
    if (found === undefined && id === NO_TOKEN) return id;
    const problem = `The id of ${text} must be ${found ?? `< ${tokens.length}`}, found ${id}`;
    tolerance.warn(new FormatError("format/embd.special-tokens", problem, { ...at, offset: (at.offset ?? 0) + 4 * i }));
    return found ?? id;
  });
}

/**
 * The ids by how the tokens are written; undefined where [UNK], [CLS] or [SEP] is missing, without which nothing can be
 * embedded. Others that are missing get the id of [UNK].
 */
export function specialsByText(tokens: TokenList): readonly number[] | undefined {
  const ids = SPECIAL_TEXTS.map((text) => tokens.find(text));
  const [, unk, cls, sep] = ids;
  if (unk === undefined || cls === undefined || sep === undefined) return undefined;
  return ids.map((id) => id ?? unk);
}
