import { dirname } from "node:path";
import { listOf } from "../../../../api/options.ts";
import { startProgress } from "../../../../api/progress.ts";
import type { AddOptions, NewEntry } from "../../../../api/vault/options.ts";
import type { VaultAddResult } from "../../../../api/vault/results.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { printable } from "../../../../base/text.ts";
import { DEFAULT_BOUNDS } from "../../../../formats/aerovault/manifest/records.ts";
import type { VaultEdit } from "../../../../formats/aerovault/write/edit.ts";
import { type AddReport, addToVault, capacityWarning, planAdd } from "../../../../operations/vault/add.ts";
import type { AddInput, StreamInput } from "../../../../operations/vault/inputs.ts";
import { sealSetup } from "../../../../operations/vault/sealing.ts";
import { entryPath } from "../../../../operations/vault/tree.ts";
import { collectInputs, openVaultInput, ownFilesOf } from "../adding/inputs.ts";
import { newInputs } from "../adding/new-entries.ts";
import { isWorthWorkers, sealRunner } from "../adding/runner.ts";
import { keepSealed } from "../adding/sealed-copy.ts";
import type { Applied } from "../change.ts";
import type { ChangeTarget } from "./target.ts";

/** What is added: paths on disk, data under a name, a stream. */
export type Added = string | NewEntry | AddedStream;

/** Bytes of unknown length that go into the top, or into the directory of the options. */
export interface AddedStream {
  readonly name: string;
  /** For errors. */
  readonly label: string;
  pieces(): AsyncIterable<Bytes>;
}

interface Stored extends AddReport {
  readonly storedBytes: number;
  readonly storedBlocks: number;
}

/** Stores files and trees, each content once. */
export async function addToVaultFile(
  target: ChangeTarget,
  what: readonly Added[],
  options: AddOptions,
): Promise<VaultAddResult> {
  const { vault, dryRun, context, onProgress } = target;
  const { engine } = context;
  const inputs = await inputsOf(target, what, options);
  const sizes = inputs.map((input) => (input.kind === "file" ? input.size : 0));
  const work = { byteLength: sizes.reduce((sum, size) => sum + size, 0), files: inputs.length };
  // Threads start while the key is derived from the password.
  if (!dryRun && isWorthWorkers(work)) engine.expect?.(Number.MAX_SAFE_INTEGER);
  const total = inputs.some(({ kind }) => kind === "stream") ? undefined : work.byteLength;
  const progress = startProgress({ label: "adding", total }, dryRun ? undefined : onProgress);
  const { result, byteLength } = await target.commit<Stored>({
    expectedBytes: work.byteLength,
    async apply(edit, opened): Promise<Applied<Stored>> {
      const onWarning = (text: string): void => (context.onLoss ?? context.onNote)(text);
      if (dryRun) {
        const plan = planAdd(edit, inputs);
        const warning = capacityWarning(edit, inputs);
        if (warning !== undefined) onWarning(warning);
        return { result: { ...plan, storedBytes: 0, storedBlocks: 0 }, notes: replacedNotes(plan, "would replace") };
      }
      const { signal } = context;
      const before = storedBy(edit);
      const runner = sealRunner({ engine, ...work, signal, isKnown: (id) => edit.has(id) });
      const { keys, manifest, source } = opened;
      const bounds = manifest.wrappers.chunking.bounds ?? DEFAULT_BOUNDS;
      const settings = { bounds, level: manifest.wrappers.compression.level };
      const chunker = options.chunker ?? "keyed";
      const setup = await sealSetup(engine, settings, { keys, chunker, label: source.label });
      const done = await addToVault(edit, inputs, {
        engine,
        runner,
        setup,
        signal,
        onProgress: progress.add,
        onWarning,
      });
      const after = storedBy(edit);
      const storedBytes = after.storedBytes - before.storedBytes;
      const stored = { storedBytes, storedBlocks: after.storedBlocks - before.storedBlocks };
      // Where everything was left out, the vault stays as it is.
      const outcome = done.files + done.directories === 0 ? "unchanged" : undefined;
      return { result: { ...done, ...stored }, outcome, notes: replacedNotes(done, "replaced") };
    },
  });
  progress.end();
  const { files, directories, byteLength: logicalBytes, replaced, storedBytes, storedBlocks } = result;
  return { vault, dryRun, files, directories, logicalBytes, replaced, storedBytes, storedBlocks, byteLength };
}

function replacedNotes({ replaced }: AddReport, verb: "replaced" | "would replace"): string[] {
  return replaced.map((path) => `${verb} "${printable(path)}"`);
}

/** What the edit of a batch has stored so far counts for earlier changes. */
function storedBy({ storedBytes, storedBlocks }: VaultEdit): Pick<Stored, "storedBytes" | "storedBlocks"> {
  return { storedBytes, storedBlocks };
}

async function inputsOf(target: ChangeTarget, what: readonly Added[], options: AddOptions): Promise<AddInput[]> {
  const { vault, source, context } = target;
  const { engine, limits, signal, session } = context;
  const to = options.to === undefined || /^\/*$/.test(options.to) ? "" : entryPath(options.to, source);
  const tensors = options.tensorCuts === false || options.chunker === "reference" ? "ignore" : "cut";
  const [include, exclude] = [listOf(options.include) ?? [], listOf(options.exclude) ?? []];
  const place = session?.real ?? vault;
  const paths = what.filter((one) => typeof one === "string");
  const files = collectInputs(paths, {
    to,
    include,
    exclude,
    links: options.follow === true ? "follow" : "refuse",
    vault: ownFilesOf(place),
    onNote: (text) => context.onNote(printable(text)),
    openFile: (path, identity) => openVaultInput(path, identity, { engine, limits, tensors, signal }),
  });
  const copy = { engine, limits, signal, folder: dirname(place) };
  const keeping = (label: string): StreamInput["keep"] =>
    tensors === "cut" ? (pieces) => keepSealed(pieces, { ...copy, label }) : undefined;
  const streams = what.filter(isStream).map(({ name, label, pieces }): StreamInput => {
    const path = entryPath(to === "" ? name : `${to}/${name}`, source);
    return { kind: "stream", path, label, pieces, keep: keeping(label) };
  });
  const entries = what.filter(isNewEntry);
  const made = newInputs(entries, { to, include, exclude, source, tensors, engine, limits, signal, keeping });
  return [...files, ...streams, ...made];
}

function isStream(one: Added): one is AddedStream {
  return typeof one === "object" && "pieces" in one;
}

function isNewEntry(one: Added): one is NewEntry {
  return typeof one === "object" && !("pieces" in one);
}
