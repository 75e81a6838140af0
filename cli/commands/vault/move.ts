import type { VaultEdit } from "../../../src/formats/aerovault/write/vault-edit.ts";
import { type Command, defineCommand } from "../../command.ts";
import { plural } from "../../render/sizes.ts";
import { changeEntries, type EntryChange, entryPath } from "./change.ts";

export const vaultMvCommand = moveCommand({
  details: [
    "Gives an entry, and everything below it, another path. TO is the new path itself; where TO is a directory of the vault or ends with a slash, the entry goes into it under its own name. Nothing is replaced.",
  ],
  example: { command: "tare vault mv models.aerovault a.gguf old/a.gguf", says: "directories are made" },
  apply: (edit, from, to) => {
    edit.tree.move(from, to, edit.now);
    return { facts: { from, to }, text: `moved "${from}" to "${to}"`, outcome: from === to ? "unchanged" : undefined };
  },
});

export const vaultCpCommand = moveCommand({
  details: [
    "A second entry with the same contents, which are not stored again: copies cost their line in the manifest. TO is the new path itself; where TO is a directory of the vault or ends with a slash, the copy goes into it under its own name. Nothing is replaced.",
  ],
  example: { command: "tare vault cp models.aerovault a.gguf b.gguf", says: "no data is written" },
  apply: (edit, from, to) => {
    const copied = edit.tree.copy(from, to, edit.now);
    return { facts: { from, to, copied }, text: `copied "${from}" to "${to}": ${plural(copied, "entry", "entries")}` };
  },
});

interface Move {
  readonly details: readonly string[];
  readonly example: { readonly command: string; readonly says: string };
  readonly apply: (edit: VaultEdit, from: string, to: string) => EntryChange;
}

function moveCommand({ details, example, apply }: Move): Command {
  return defineCommand({
    positionals: { names: ["VAULT", "FROM", "TO"], min: 3, max: 3 },
    flags: {},
    details,
    examples: [example],
    output: "report",
    run(context, { positionals }) {
      const [vault = "", typedFrom = "", typedTo = ""] = positionals;
      const from = entryPath(typedFrom);
      const to = typedTo === "/" ? "" : entryPath(typedTo);
      return changeEntries(context, vault, (edit) => apply(edit, from, destination(edit, from, typedTo, to)));
    },
  });
}

/** As mv and cp of a shell understand it. */
function destination(edit: VaultEdit, from: string, typed: string, to: string): string {
  const name = from.slice(from.lastIndexOf("/") + 1);
  const isInto = typed.endsWith("/") || (to !== from && edit.tree.kindOf(to) === "directory");
  if (!isInto) return to;
  return to === "" ? name : `${to}/${name}`;
}
