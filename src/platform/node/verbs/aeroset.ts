import { basename, dirname, join } from "node:path";
import { type Request, requestOf, warnOf } from "../../../api/host.ts";
import { withInput } from "../../../api/input-use.ts";
import type { Input } from "../../../api/inputs.ts";
import { type OptionRule, type OptionRules, switchRule, WRITE_RULES, type WriteOptions } from "../../../api/options.ts";
import { startProgress } from "../../../api/progress.ts";
import { UsageError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { withReason } from "../../../bytes/abort.ts";
import { SetModel } from "../../../formats/aeroset/model.ts";
import { planUpdate, type UpdatePlan, writeUpdate } from "../../../formats/aeroset/update.ts";
import { readersOf } from "../../../formats/registry.ts";
import type { Loss } from "../../../model/finding.ts";
import type { ModelContent, Opened } from "../../../model/format.ts";
import { provenOutput } from "../../../operations/convert/check-written.ts";
import { contentOf } from "../../../operations/convert/content.ts";
import { checkFiles, originFormats, refuseLosses } from "../../../operations/convert.ts";
import { unclaimedBytes } from "../../../operations/reading/unclaimed.ts";
import { directoryOutput } from "../files/directory.ts";
import { checkInputsKept } from "../files/output-place.ts";
import { type NodeHost, nodeHost } from "../host.ts";
import { checkPath } from "../paths.ts";

/** Options of `aeroset.update`: the command's flags. */
export interface AerosetUpdateOptions extends WriteOptions {
  /** Number or path of the part to replace; found by its tensors if absent. */
  readonly part?: number | string | undefined;
  /** Leaves the old part and the old index where they are. */
  readonly keep?: boolean | undefined;
  /** Goes on although something of the set or of the new part cannot be kept. */
  readonly allowLossy?: boolean | undefined;
}

/** What `tare aeroset update --json` prints. */
export interface AerosetUpdateResult {
  readonly set: string;
  readonly dryRun: boolean;
  /** Number of the replaced part. */
  readonly part: number;
  readonly replaced: string;
  readonly files: readonly { readonly path: string; readonly byteLength: number }[];
  readonly removed: readonly string[];
  readonly tensorCount: number;
  readonly notes: readonly string[];
}

const partRule: OptionRule = {
  must: "the number or the path of a part",
  test: (value) => (typeof value === "string" && value !== "") || (Number.isSafeInteger(value) && Number(value) >= 0),
};

const RULES: OptionRules = { ...WRITE_RULES, part: partRule, keep: switchRule, allowLossy: switchRule };

/** Replaces one part of a set by the tensors of another model. Readers see the old set or the new one. */
export function update(set: string | URL, part: Input, options?: AerosetUpdateOptions): Promise<AerosetUpdateResult> {
  return updateOn(nodeHost(), set, part, options);
}

export async function updateOn(
  host: NodeHost,
  set: string | URL,
  part: Input,
  options: AerosetUpdateOptions = {},
): Promise<AerosetUpdateResult> {
  const request = await requestOf(host, "aeroset.update", options, RULES);
  const target = checkPath("aeroset.update", "set", set);
  return withReason(options.signal, async () => {
    const opened = await host.openText(target, request);
    try {
      const set = localSet(opened, opened.label);
      return await withInput(host, part, request, (other) =>
        replacePart(host, { set, opened, other, path: opened.label }, request),
      );
    } finally {
      await opened.close();
    }
  });
}

interface Update {
  readonly set: SetModel;
  readonly opened: Opened;
  readonly other: Opened;
  /** Of the set's JSON. */
  readonly path: string;
}

type UpdateRequest = Request<AerosetUpdateOptions>;

async function replacePart(host: NodeHost, update: Update, request: UpdateRequest): Promise<AerosetUpdateResult> {
  const { set, opened, other, path } = update;
  const { signal, dryRun = false, onNote } = request;
  const name = basename(path);
  const [content, replacement] = await Promise.all([wholeContent(opened, name), wholeContent(other, name)]);
  const part = request.part === undefined ? undefined : String(request.part);
  const plan = planUpdate({ set, content, replacement }, { name, part });
  await checkFiles(other, signal);
  const beside = other.container.kind === "model" ? other.container.beside : undefined;
  const losses = [...set.unread, ...(await lossesOf(other, replacement, signal)), ...(beside?.losses ?? [])];
  if (request.allowLossy !== true) refuseLosses(losses, "update the set", path);
  const warn = warnOf(host, request);
  for (const loss of losses) warn(`"${printable(loss.name)}": ${loss.reason}`);
  for (const note of plan.notes) onNote?.(note);
  const removed = dryRun ? [] : await write(host, plan, update, request);
  const files = [plan.part, plan.index].map((file) => ({
    path: join(dirname(path), file.name),
    byteLength: file.image.layout.fileBytes,
  }));
  return {
    set: path,
    dryRun,
    part: plan.old.number,
    replaced: plan.old.entry.path,
    files,
    removed,
    tensorCount: plan.part.image.rows.length,
    notes: plan.notes,
  };
}

function localSet({ container, format }: Opened, label: string): SetModel {
  if (!(container instanceof SetModel)) {
    const message = `Cannot update "${label}": must be an AEROSET, found ${format.name}`;
    throw new UsageError("usage/aeroset.container", message, { source: label });
  }
  if (container.content.source.descriptor !== undefined) return container;
  const message = `Cannot update "${label}": must be a set in a folder of this machine`;
  throw new UsageError("usage/aeroset.not-local", message, { source: label });
}

async function wholeContent(opened: Opened, name: string): Promise<ModelContent> {
  return contentOf(opened, { name, formats: await readersOf(originFormats(opened)) });
}

/** What the replacement holds and a part of a set cannot. */
async function lossesOf(
  opened: Opened,
  { losses = [] }: ModelContent,
  signal: AbortSignal | undefined,
): Promise<readonly Loss[]> {
  const unread = opened.container.kind === "model" ? (opened.container.unread ?? []) : [];
  return [...unread, ...(await unclaimedBytes(opened, signal)), ...losses];
}

/** Resolves with the names of the files that were removed. */
async function write(
  host: NodeHost,
  plan: UpdatePlan,
  { path, other: { container } }: Update,
  { engine, keep, signal, onProgress }: UpdateRequest,
): Promise<readonly string[]> {
  const progress = startProgress({ label: "writing", total: plan.dataBytes }, onProgress);
  // The set's JSON is replaced; its parts are not.
  const check = (file: string): Promise<void> => checkInputsKept(file, host.inputs, { inputs: "rewritten" });
  const folder = directoryOutput(dirname(path), basename(path), { overwrite: "replace", check });
  const output = provenOutput(folder, async () => {
    if (container.kind === "model") await container.prove?.({ signal });
  });
  const { removed } = await writeUpdate(plan, output, {
    engine,
    signal,
    onProgress: (byteLength) => progress.add(byteLength),
    old: keep === true ? "keep" : "remove",
  });
  progress.end();
  return removed;
}
