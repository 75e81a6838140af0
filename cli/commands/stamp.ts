import { access, stat } from "node:fs/promises";
import { UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import type { Sink } from "../../src/bytes/sink.ts";
import type { MetadataValue } from "../../src/model/metadata.ts";
import { ORIGIN_KEY } from "../../src/model/origin.ts";
import { valueToJson } from "../../src/operations/inspect.ts";
import { signatureName } from "../../src/operations/sign.ts";
import {
  decodeEntered,
  type MetadataEdit,
  parseEntered,
  planStamp,
  type StampPlan,
  typeOf,
  writeStamp,
} from "../../src/operations/stamp.ts";
import { findModelIn } from "../../src/platform/node/model-directory.ts";
import type { OpenedTarget } from "../../src/platform/node/open-target.ts";
import { finishPatch, patchFile } from "../../src/platform/node/patch-file.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { readFlagFile } from "../flag-file.ts";
import { checkAbsent, openOutputPath } from "../output-target.ts";
import { checkStandardOutput, stdoutSink } from "../stdout-sink.ts";

export const stampCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: {
    set: { kind: "list", value: "K=V", summary: "give key K the value V: JSON, or text as it is; repeatable" },
    unset: { kind: "list", value: "K", summary: "remove key K; repeatable" },
    from: { kind: "path", value: "FILE", summary: "set every key of the JSON object in FILE" },
    rewrite: { kind: "switch", summary: "write the whole file anew, even where the room suffices" },
    unsign: { kind: "switch", summary: "leave out the signature inside a signed file" },
  },
  details: [
    "The tensors are not touched. Where the room before them suffices, only the bytes that change are written, into the file itself: a journal beside it lets the next tare stamp finish what a crash interrupts. Else, and with -o OUT or --rewrite, the file is written anew and takes the old one's place when it is complete.",
    "A key keeps its type where the value fits it: 8 stays u32 in GGUF and text where there was text. New keys get u32, i32, f32, bool, string or arrays of them in GGUF, JSON's types in AERO and APR, and text in SafeTensors. Keys that say where tensors are cannot be edited.",
    "What would be written is opened and compared before the first byte is written.",
  ],
  examples: [
    { command: "tare stamp model.gguf --set general.name='My model'", says: "a new name, in place if it fits" },
    { command: "tare stamp model.apr --set license=MIT --unset notes -o out.apr", says: "leaves model.apr as it is" },
    { command: "tare stamp model.safetensors --from card.json", says: "every key of a JSON file" },
  ],
  output: "data",
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [target = ""] = positionals;
    const edits = await collectEdits(flags);
    await finishEarlier(context, target);
    const opened = await context.open(target);
    const path = outputPath(context, opened);
    if (path === "-") checkStandardOutput(context);
    else if (context.flags.output !== undefined) await checkAbsent(context, path, { inputs: "rewritten" });
    const plan = await planStamp(opened, edits, {
      engine: await context.engine(),
      limits: await context.limits(),
      signal: context.signal,
      signature: flags.unsign === true ? "drop" : undefined,
    });
    for (const note of plan.notes) context.note(`tare: note: ${note}`);
    const mode = modeOf(context, plan, flags.rewrite);
    const dryRun = context.flags["dry-run"] === true;
    if (!dryRun) await write(context, plan, { mode, path });
    if (mode !== "nothing" && context.flags.output === undefined) await noteSignature(context, path);
    if (path === "-" && !dryRun) return EXIT.success;
    await context.show({
      json: () => ({ dryRun, path, mode, byteLength: plan.result.byteLength, changes: plan.changes.map(changeJson) }),
      text: () => describe(plan, { mode, path, dryRun }),
    });
    return EXIT.success;
  },
});

type Mode = "nothing" | "in place" | "rewritten" | "new file";

interface EditFlags {
  readonly set?: readonly string[];
  readonly unset?: readonly string[];
  readonly from?: string;
}

/** Those of the file first: what was typed wins. */
async function collectEdits({ set = [], unset = [], from }: EditFlags): Promise<readonly MetadataEdit[]> {
  const edits: MetadataEdit[] = [];
  if (from !== undefined) {
    const bytes = await readFlagFile(from, "data", `Cannot read "${from}" for --from`);
    for (const [key, entered] of decodeEntered(bytes, from)) edits.push({ kind: "set", key, entered });
  }
  for (const text of set) {
    const at = text.indexOf("=");
    if (at < 1) {
      const message = `Cannot use --set "${text}": must be KEY=VALUE`;
      throw new UsageError("usage/flag-value", message, { source: "command line" });
    }
    edits.push({ kind: "set", key: text.slice(0, at), entered: parseEntered(text.slice(at + 1)) });
  }
  for (const key of unset) edits.push({ kind: "unset", key });
  return edits;
}

function isAddress(target: string): boolean {
  return target === "-" || /^[a-z][a-z0-9+.-]+:\/\//i.test(target);
}

/** An edit that a crash interrupted left a file that may not open. */
async function finishEarlier(context: Context, target: string): Promise<void> {
  if (isAddress(target) || context.flags["dry-run"] === true) return;
  const stats = await stat(target).catch(() => undefined);
  const path = stats?.isDirectory() === true ? await findModelIn(target) : target;
  if (await finishPatch(path)) context.note(`tare: note: finished an earlier edit of ${path} that was interrupted`);
}

function outputPath({ flags }: Context, { container, label, resolver }: OpenedTarget): string {
  if (flags.output !== undefined) return flags.output;
  const first = container.parts[0];
  if (first !== undefined && resolver !== undefined && !isAddress(label)) return first.label;
  const message = `Cannot edit "${label}" in its place: only files on disk can be`;
  throw new UsageError("usage/arguments", message, { source: "command line" }, { hint: "Name the output with -o OUT" });
}

function modeOf({ flags }: Context, { changes, patches }: StampPlan, rewrite: true | undefined): Mode {
  if (flags.output !== undefined) return "new file";
  if (changes.length === 0) return "nothing";
  return patches === undefined || rewrite === true ? "rewritten" : "in place";
}

interface Job {
  readonly mode: Mode;
  readonly path: string;
}

async function write(context: Context, plan: StampPlan, { mode, path }: Job): Promise<void> {
  if (mode === "nothing") return;
  if (mode === "in place") return patchFile(path, plan.patches ?? []);
  const sink = await openSink(context, mode, path);
  const progress = context.progress({ label: "writing", total: plan.result.byteLength });
  try {
    const onProgress = (byteLength: number): void => progress.add(byteLength);
    await writeStamp(plan, sink, { signal: context.signal, onProgress });
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  } finally {
    progress.end();
  }
}

async function openSink(context: Context, mode: Mode, path: string): Promise<Sink> {
  if (path === "-") return stdoutSink(context.terminal);
  if (mode === "new file") {
    const output = await openOutputPath(context, path);
    return output.create(output.name);
  }
  const { fileSink, abortAllSinks } = await import("../../src/platform/node/file-sink.ts");
  context.onExit(abortAllSinks);
  return fileSink(path, { overwrite: "replace" });
}

async function noteSignature(context: Context, path: string): Promise<void> {
  const beside = signatureName(path);
  const exists = await access(beside).then(
    () => true,
    () => false,
  );
  if (exists) context.note(`tare: note: ${beside} was made before this edit and no longer fits; sign again`);
}

type Change = StampPlan["changes"][number];

function changeJson({ key, before, after }: Change): object {
  const side = (value: MetadataValue | undefined): object | null =>
    value === undefined ? null : { type: typeOf(value), value: valueToJson(value) };
  return { key, before: side(before), after: side(after) };
}

function describe(plan: StampPlan, { mode, path, dryRun }: Job & { readonly dryRun: boolean }): string {
  if (mode === "nothing") return `${path}: nothing to change`;
  const how = { "in place": "edited in place", rewritten: "written anew", "new file": "written" }[mode];
  const shown = plan.changes.filter(({ key }) => key !== ORIGIN_KEY);
  const lines = shown.map(({ key, before, after }) => `  ${printable(key)}: ${shorten(before)} -> ${shorten(after)}`);
  const count = `${shown.length} ${shown.length === 1 ? "key" : "keys"}`;
  return [`${path}: ${dryRun ? "would be " : ""}${how}, ${count} changed`, ...lines].join("\n");
}

/** One line for a value of any length. */
function shorten(value: MetadataValue | undefined): string {
  if (value === undefined) return "none";
  if (value.type === "array") return `${typeOf(value)}, ${value.length} elements`;
  const text = printable(JSON.stringify(valueToJson(value)));
  return `${text.length > 60 ? `${text.slice(0, 57)}…` : text} (${value.type})`;
}
