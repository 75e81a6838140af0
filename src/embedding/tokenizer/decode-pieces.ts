import type { Vocabulary } from "../../model/bert/vocabulary.ts";

/** Glues pieces that begin with "##" to the ones before and joins the rest by spaces. Unknown ids are skipped. */
export function decodePieces({ tokens, special }: Vocabulary, ids: Iterable<number>): string {
  const silent = new Set([special.cls, special.sep, special.pad]);
  // A vocabulary without [PAD] gives it the id of [UNK], which is a word like others.
  if (special.pad === special.unk) silent.delete(special.pad);
  let text = "";
  for (const id of ids) {
    const token = silent.has(id) ? undefined : tokens[id];
    if (token === undefined) continue;
    if (token.startsWith("##")) text += token.slice(2);
    else text += text === "" ? token : ` ${token}`;
  }
  return text;
}
