import { printable } from "../../../src/base/text.ts";
import { DEFAULT_BOUNDS } from "../../../src/formats/aerovault/manifest.ts";
import { CHUNKERS, type ChunkerName } from "../../../src/formats/aerovault/write/gear-rules.ts";
import type { VaultEdit } from "../../../src/formats/aerovault/write/vault-edit.ts";
import type { AddReport } from "../../../src/operations/vault/add.ts";
import type { AddInput } from "../../../src/operations/vault/inputs.ts";
import type { VaultWriteContext } from "../../../src/platform/node/vault-writer.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { formatSize, plural } from "../../render/sizes.ts";
import { entryPath, writeContext } from "./change.ts";

export const vaultAddCommand = defineCommand({
  positionals: { names: ["VAULT", "PATH"], min: 2, max: Number.MAX_SAFE_INTEGER },
  flags: {
    to: { kind: "text", value: "DIR", summary: "directory inside the vault" },
    include: { kind: "list", value: "GLOB", summary: "only files whose entry matches; repeatable" },
    exclude: { kind: "list", value: "GLOB", summary: "leave out entries that match, with all below; repeatable" },
    follow: { kind: "switch", summary: "walk into links to folders" },
    chunker: { kind: "choice", choices: CHUNKERS, summary: "keyed (the default), or as the reference cuts" },
    "no-tensor-cuts": { kind: "switch", summary: "cut models like any other file" },
    "stdin-name": { kind: "text", value: "NAME", summary: 'entry of what comes on standard input ("stdin")' },
  },
  details: [
    "Stores files and trees. PATH's base name is the entry, as `cp -r` would have it; PATH/. adds what is inside. - reads standard input. An entry that exists is replaced, which is said.",
    "Contents that the vault has are not stored again, also where they are part of another file: chunks are cut by content, and models that tare knows are cut at their tensors, so that the same weights as SafeTensors, GGUF, AERO and APR are stored once. The lengths of blocks then show the sizes of tensors, by which a known model can be recognised; --no-tensor-cuts trades that for deduplication.",
    "Nothing is left out in silence: folders that cannot be read, names that no vault can store, files that change while they are read, devices, pipes and links to folders stop the command, and the vault is as it was. A link to a file is stored as that file.",
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
    const writing = await writeContext(context);
    const to = flags.to === undefined || /^\/*$/.test(flags.to) ? "" : entryPath(flags.to);
    const inputs = await collect(context, writing, {
      vault,
      paths,
      to,
      include: flags.include ?? [],
      exclude: flags.exclude ?? [],
      links: flags.follow === true ? "follow" : "refuse",
      tensors: flags["no-tensor-cuts"] === true || flags.chunker === "reference" ? "ignore" : "cut",
      stdinName: flags["stdin-name"] ?? "stdin",
    });
    const outcome = await add(context, writing, { vault, inputs, chunker: flags.chunker ?? "keyed" });
    await report(context, vault, outcome);
    return EXIT.success;
  },
});

interface Selection {
  readonly vault: string;
  readonly paths: readonly string[];
  readonly to: string;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly links: "follow" | "refuse";
  readonly tensors: "cut" | "ignore";
  readonly stdinName: string;
}

async function collect(context: Context, writing: VaultWriteContext, selection: Selection): Promise<AddInput[]> {
  const [{ collectInputs, fileIdentity }, { openVaultInput }] = await Promise.all([
    import("../../../src/platform/node/vault-tree.ts"),
    import("../../../src/platform/node/vault-input.ts"),
  ]);
  const { vault, paths, to, include, exclude, links, tensors, stdinName } = selection;
  const { engine, limits, signal } = writing;
  const inputs = collectInputs(
    paths.filter((path) => path !== "-"),
    {
      to,
      include,
      exclude,
      links,
      vault: fileIdentity(vault),
      onNote: (text) => context.note(`note: ${printable(text)}`),
      openFile: (path, identity) => openVaultInput(path, identity, { engine, limits, tensors, signal }),
    },
  );
  if (!paths.includes("-")) return inputs;
  const path = entryPath(to === "" ? stdinName : `${to}/${stdinName}`);
  const pieces = async function* (): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    for await (const piece of process.stdin) yield new Uint8Array(piece);
  };
  return [...inputs, { kind: "stream", path, label: "standard input", pieces }];
}

interface Work {
  readonly vault: string;
  readonly inputs: readonly AddInput[];
  readonly chunker: ChunkerName;
}

interface Outcome extends AddReport {
  readonly storedBytes: number;
  readonly storedBlocks: number;
  readonly byteLengthAfter: number | undefined;
}

async function add(context: Context, writing: VaultWriteContext, { vault, inputs, chunker }: Work): Promise<Outcome> {
  const [{ changeVault }, { addToVault, planAdd }, { sealRunner, isWorthWorkers }, { sealSetup }] = await Promise.all([
    import("../../../src/platform/node/vault-writer.ts"),
    import("../../../src/operations/vault/add.ts"),
    import("../../../src/platform/node/vault-runner.ts"),
    import("../../../src/operations/vault/seal-setup.ts"),
  ]);
  const { engine, signal } = writing;
  const sizes = inputs.map((input) => (input.kind === "file" ? input.size : 0));
  const work = { byteLength: sizes.reduce((sum, size) => sum + size, 0), files: inputs.length };
  const dryRun = context.flags["dry-run"] === true;
  // Threads start while the password is being turned into a key.
  if (!dryRun && isWorthWorkers(work)) engine.expect?.(Number.MAX_SAFE_INTEGER);
  const progress = context.progress({ label: "adding", total: work.byteLength });
  const onProgress = (byteLength: number): void => progress.add(byteLength);
  const { result, sealed } = await changeVault(vault, writing, {
    layout: "update",
    run: dryRun ? "dry" : undefined,
    expectedBytes: work.byteLength,
    apply: async (edit, opened) => {
      if (dryRun) {
        const plan = planAdd(edit.manifestBytes, edit.tree, inputs, edit.now);
        return { result: { ...plan, storedBytes: 0, storedBlocks: 0 } };
      }
      const runner = sealRunner({ engine, ...work, signal, isKnown: (id) => edit.has(id) });
      const { keys, manifest, source } = opened;
      const bounds = manifest.wrappers.chunking.bounds ?? DEFAULT_BOUNDS;
      const settings = { bounds, level: manifest.wrappers.compression.level };
      const setup = await sealSetup(engine, settings, { keys, chunker, label: source.label });
      const done = await addToVault(edit, inputs, { engine, runner, setup, signal, onProgress });
      return { result: { ...done, ...stored(edit) } };
    },
  });
  progress.end();
  return { ...result, byteLengthAfter: sealed?.byteLength };
}

function stored({ storedBytes, storedBlocks }: VaultEdit): Pick<Outcome, "storedBytes" | "storedBlocks"> {
  return { storedBytes, storedBlocks };
}

async function report(context: Context, vault: string, outcome: Outcome): Promise<void> {
  const dryRun = context.flags["dry-run"] === true;
  const { files, directories, byteLength, replaced, storedBytes, storedBlocks, byteLengthAfter } = outcome;
  for (const path of replaced) context.note(`note: ${dryRun ? "would replace" : "replaced"} "${printable(path)}"`);
  await context.show({
    json: () => ({
      vault,
      dryRun,
      files,
      directories,
      logicalBytes: byteLength,
      replaced,
      storedBytes,
      storedBlocks,
      byteLength: byteLengthAfter ?? null,
    }),
    text: () => {
      const what = `${plural(files, "file")} and ${plural(directories, "directory", "directories")}, ${formatSize(byteLength)}`;
      if (dryRun) return `${printable(vault)}: would add ${what}`;
      return `${printable(vault)}: added ${what}; ${formatSize(storedBytes)} stored in ${plural(storedBlocks, "new chunk")}`;
    },
  });
}
