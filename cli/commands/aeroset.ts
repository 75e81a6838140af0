import { basename, dirname, join } from "node:path";
import { UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { SetModel } from "../../src/formats/aeroset/model.ts";
import { planUpdate, type UpdatePlan, type UpdateResult, writeUpdate } from "../../src/formats/aeroset/update.ts";
import { readersOf } from "../../src/formats/registry.ts";
import type { ModelContent, Opened } from "../../src/model/format.ts";
import { contentOf, originFormats, refuseLosses } from "../../src/operations/convert.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { formatSize, plural } from "../render/sizes.ts";

export const aerosetCommand = defineCommand({
  positionals: { names: ["update", "SET", "PART"], min: 3, max: 3 },
  flags: {
    part: { kind: "text", value: "N|PATH", summary: "which part to replace; found by its tensors where not given" },
    keep: { kind: "switch", summary: "leave the old part and the old index where they are" },
    "allow-lossy": { kind: "switch", summary: "go on although something of the set or of PART cannot be kept" },
  },
  details: [
    "update replaces one part of a set by the tensors of another model file, usually an .aero. The file must hold exactly the tensors of the part; their types and shapes may differ. It is written under the set's shard numbers, with page and tensor hashes.",
    "The new part and the new index get names of their own, then the JSON is swapped in one step: a reader sees the old set or the new one, never a mixture. No other part is touched.",
    "Keys of the JSON or of the index that the specification does not name cannot be kept: they stop the update (exit 13) unless --allow-lossy.",
  ],
  examples: [
    { command: "tare aeroset update model.aeroset.json layer-7.aero", says: "the part that holds the same tensors" },
    {
      command: "tare aeroset update model.aeroset.json new.aero --part 3 --keep",
      says: "a named one, keeping the old",
    },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [action = "", target = "", replacement = ""] = positionals;
    if (action !== "update") {
      const message = `Cannot run "aeroset ${printable(action)}": must be "aeroset update"`;
      throw new UsageError("usage/arguments", message, { source: "command line" });
    }
    const opened = await context.open(target);
    const set = localSet(opened, opened.label);
    const other = await context.open(replacement);
    const name = basename(opened.label);
    const [content, others] = await Promise.all([wholeContent(opened, name), wholeContent(other, name)]);
    const contents = { set, content, replacement: others };
    const plan = planUpdate(contents, { name, part: flags.part });
    const losses = [...set.unread, ...(other.container.kind === "model" ? (other.container.unread ?? []) : [])];
    if (flags["allow-lossy"] !== true) refuseLosses(losses, "update the set", opened.label);
    for (const { name, reason } of losses) context.warn(`tare: warning: "${printable(name)}": ${reason}`);
    for (const note of plan.notes) context.note(`note: ${printable(note)}`);
    const dryRun = context.flags["dry-run"] === true;
    const result = dryRun ? undefined : await write(context, plan, { path: opened.label, keep: flags.keep });
    await report(context, plan, { path: opened.label, result });
    return EXIT.success;
  },
});

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

async function write(
  context: Context,
  plan: UpdatePlan,
  { path, keep }: { readonly path: string; readonly keep: true | undefined },
): Promise<UpdateResult> {
  const [{ directoryOutput }, { abortAllSinks }] = await Promise.all([
    import("../../src/platform/node/directory-output.ts"),
    import("../../src/platform/node/file-sink.ts"),
  ]);
  context.onExit(abortAllSinks);
  const progress = context.progress({ label: "writing", total: plan.dataBytes });
  const output = directoryOutput(dirname(path), basename(path), { overwrite: "replace" });
  const result = await writeUpdate(plan, output, {
    engine: await context.engine(),
    signal: context.signal,
    onProgress: (byteLength) => progress.add(byteLength),
    old: keep === true ? "keep" : "remove",
  });
  progress.end();
  return result;
}

async function report(
  context: Context,
  plan: UpdatePlan,
  { path, result }: { readonly path: string; readonly result: UpdateResult | undefined },
): Promise<void> {
  const files = [plan.part, plan.index].map(({ name, image }) => ({
    path: join(dirname(path), name),
    byteLength: image.layout.fileBytes,
  }));
  const replaced = plan.old.entry.path;
  const tensorCount = plan.part.image.rows.length;
  await context.show({
    json: () => ({
      set: path,
      dryRun: result === undefined,
      part: plan.old.number,
      replaced,
      files,
      removed: result?.removed ?? [],
      tensorCount,
      notes: plan.notes,
    }),
    text: () => {
      const verb = result === undefined ? "would replace" : "replaced";
      const size = formatSize(files[0]?.byteLength ?? 0);
      return `${verb} part ${plan.old.number} of ${path} by ${plan.part.name}: ${plural(tensorCount, "tensor")}, ${size}`;
    },
  });
}
