import { setTimeout as sleep } from "node:timers/promises";
import type { VaultAddResult } from "../../../src/api/vault/results.ts";
import type { Bytes } from "../../../src/base/bytes.ts";
import { formatSize, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { CHUNKERS } from "../../../src/operations/vault/index.ts";
import { type Added, addToVaultFile } from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandTarget, LOCK_FLAGS } from "./change.ts";

export const vaultAddCommand = defineCommand({
  positionals: { names: ["VAULT", "PATH"], min: 2, max: Number.MAX_SAFE_INTEGER },
  flags: {
    to: { kind: "text", value: "DIR", summary: "directory inside the vault" },
    include: { kind: "list", value: "GLOB", summary: "only files whose entry matches; repeatable" },
    exclude: { kind: "list", value: "GLOB", summary: "leave out entries that match, with all below; repeatable" },
    follow: { kind: "switch", summary: "walk into links to folders, also where PATH is one" },
    chunker: { kind: "choice", choices: CHUNKERS, summary: "keyed (the default), or as the reference cuts" },
    "no-tensor-cuts": { kind: "switch", summary: "cut models like any other file" },
    "stdin-name": { kind: "text", value: "NAME", summary: 'entry of what comes on standard input ("stdin")' },
    ...LOCK_FLAGS,
  },
  details: [
    "Stores files and trees. PATH's base name is the entry, as `cp -r` would have it; PATH/. adds what is inside. - reads standard input. An entry that exists is replaced, which is said.",
    "Contents that the vault has are not stored again, also where they are part of another file: chunks are cut by content, and models that tare knows are cut at their tensors, so that the same weights as SafeTensors, GGUF, AERO and APR are stored once. The lengths of blocks then show the sizes of tensors, by which a known model can be recognised; --no-tensor-cuts trades that for deduplication.",
    "Nothing is left out in silence: folders that cannot be read, names that no vault can store, files that change while they are read, devices, pipes and links to folders stop the command, and the vault is as it was. A link to a file is stored as that file; a link to a folder needs --follow, also where PATH itself is one.",
    "In a GLOB, * crosses slashes; it is compared with the whole path in the vault.",
  ],
  examples: [
    { command: "tare vault add models.aerovault llama/ notes.md", says: "a tree and a file" },
    { command: 'tare vault add models.aerovault src/. --to code --exclude "*/node_modules"', says: "what is inside" },
    { command: "pg_dump db | tare vault add backup.aerovault - --stdin-name db.sql", says: "a stream" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [vault = "", ...paths] = positionals;
    const { to, include, exclude, follow, chunker } = flags;
    const tensorCuts = flags["no-tensor-cuts"] === true ? false : undefined;
    const what: Added[] = paths.filter((path) => path !== "-");
    if (paths.includes("-")) {
      what.push({ name: flags["stdin-name"] ?? "stdin", label: "standard input", pieces: standardInput });
    }
    const target = await commandTarget(context, vault, flags);
    const result = await addToVaultFile(target, what, { to, include, exclude, follow, chunker, tensorCuts });
    await context.tell({ json: () => result, text: () => addedText(result) });
    return EXIT.success;
  },
});

/** Ctrl-C in a pipeline ends the writer too, and the end of its bytes may come before the signal: wait for that. */
const SIGNAL_MS = 50;

async function* standardInput(): AsyncGenerator<Bytes> {
  for await (const piece of process.stdin) yield new Uint8Array(piece);
  await sleep(SIGNAL_MS);
}

function addedText({ vault, dryRun, files, directories, ...bytes }: VaultAddResult): string {
  const what = `${plural(files, "file")} and ${plural(directories, "directory", "directories")}, ${formatSize(bytes.logicalBytes)}`;
  if (dryRun) return `${printable(vault)}: would add ${what}`;
  const stored = `${formatSize(bytes.storedBytes)} stored in ${plural(bytes.storedBlocks, "new chunk")}`;
  return `${printable(vault)}: added ${what}; ${stored}`;
}
