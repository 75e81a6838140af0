import { UsageError } from "../../../src/base/errors.ts";
import type { VaultEdit } from "../../../src/formats/aerovault/write/vault-edit.ts";
import { defineCommand } from "../../command.ts";
import { formatSize, plural } from "../../render/sizes.ts";
import { changeEntries, entryPath } from "./change.ts";

export const vaultRmCommand = defineCommand({
  positionals: { names: ["VAULT", "ENTRY"], min: 2, max: Number.MAX_SAFE_INTEGER },
  flags: {
    recursive: { kind: "switch", short: "r", summary: "directories with everything in them" },
  },
  details: [
    "Removes entries. What only they used is free for the next change and given back by `tare vault compact`; until then it is in the file still, encrypted, and readable for whoever has an older copy of the manifest and the password.",
    "Where one of several entries cannot be removed, none is.",
  ],
  examples: [
    { command: "tare vault rm models.aerovault old.gguf", says: "one file" },
    { command: "tare vault rm -r models.aerovault llama && tare vault compact models.aerovault", says: "and the room" },
  ],
  output: "report",
  run(context, { flags, positionals }) {
    const [vault = "", ...entries] = positionals;
    const paths = entries.map(entryPath);
    const depth = flags.recursive === true ? "recursive" : "empty";
    return changeEntries(context, vault, (edit) => {
      const removed = remove(edit, paths, depth);
      const freedBytes = edit.dropUnreferenced();
      const text = `removed ${plural(removed, "entry", "entries")}, ${formatSize(freedBytes)} unused now`;
      return { facts: { entries: paths, removed, freedBytes }, text };
    });
  },
});

function remove(edit: VaultEdit, paths: readonly string[], depth: "recursive" | "empty"): number {
  const removed = edit.tree.remove(paths, depth);
  if (removed > 0) return removed;
  throw new UsageError("usage/arguments", "Cannot remove nothing: must name an entry", { source: "command line" });
}
