import { printable } from "../../src/base/text.ts";
import type { Archive, Entry } from "../../src/model/archive.ts";
import { formatShape } from "../../src/model/shape.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { formatInteger, formatSize } from "../render/sizes.ts";
import { type Column, renderTable } from "../render/table.ts";
import { renderValues, type ValueColumn } from "../render/value-columns.ts";
import { entryGlobs, selectByName, selectTensors } from "../select-tensors.ts";

export const lsCommand = defineCommand({
  positionals: { names: ["TARGET", "GLOB"], min: 1, max: 2 },
  flags: {
    long: { kind: "switch", short: "l", summary: "exact sizes, offsets and files too; permissions of entries" },
  },
  details: ["One line a tensor: type, size, shape, name. In a GLOB, * crosses dots; {q,k} and [0-9] work."],
  examples: [
    { command: "tare ls model.gguf", says: "everything" },
    { command: 'tare ls model.safetensors "*.layers.0.*"', says: "one layer" },
    { command: "tare ls model.gguf --json | jq .tensors[].name", says: "for scripts" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = "", ...globs] = positionals;
    const { container, label } = await context.open(target);
    const detail = flags.long === true ? "long" : "short";
    if (container.kind === "archive") return showEntries(container, { globs, label, detail }, context);
    const tensors = selectTensors(container.tensors, globs, label);
    await context.show({
      json: () => ({ format: container.format, tensors: tensors.map(tensorJson) }),
      text: () => (detail === "long" ? renderLong(tensors, context) : renderShort(tensors, context)),
    });
    return EXIT.success;
  },
});

/** A name that shows as it is. Looking at it takes a fifth of the time that replacing nothing in it does. */
const ASCII = /^[ -~]*$/;

export interface EntrySelection {
  readonly globs: readonly string[];
  /** The archive, for errors. */
  readonly label: string;
  readonly detail: "short" | "long";
}

/** Entries of an archive, all of them or those that match. */
export async function showEntries(archive: Archive, selection: EntrySelection, context: Context): Promise<ExitCode> {
  const { globs, label, detail } = selection;
  const namesOf = ({ path }: Entry): readonly string[] => [path];
  const entries = selectByName(archive.entries, entryGlobs(globs), { namesOf, what: "entry", label });
  await context.show({
    json: () => ({ format: archive.format, entries: entriesJson(entries) }),
    text: () => renderEntries(entries, detail, context),
  });
  return EXIT.success;
}

function tensorJson(tensor: Tensor): unknown {
  const { name, dtype, shape, byteLength, offset, file, storedByteLength } = tensor;
  const stored = storedByteLength === byteLength ? {} : { storedByteLength };
  return { name, dtype, shape, byteLength, offset, ...stored, ...(file === undefined ? {} : { file }) };
}

function entriesJson(entries: readonly Entry[]): unknown[] {
  const timeOf = isoTimes();
  return entries.map(({ path, type, size, modified, mode }) => {
    const time = modified === undefined ? {} : { modified: timeOf(modified) };
    return { path, type, size, ...time, ...(mode === undefined ? {} : { mode }) };
  });
}

function renderShort(tensors: readonly Tensor[], context: Context): string {
  const columns: Column[] = [{}, { align: "right" }, {}, { cut: "middle" }];
  const rows = tensors.map((tensor) => [
    { text: tensor.dtype, style: context.colors.cyan },
    formatSize(tensor.byteLength),
    formatShape(tensor.shape),
    printable(tensor.name),
  ]);
  return renderTable(columns, rows, { width: context.width });
}

function renderLong(tensors: readonly Tensor[], context: Context): string {
  const inFiles = tensors.some((tensor) => tensor.file !== undefined);
  const columns: Column[] = [
    { title: "type" },
    { title: "bytes", align: "right" },
    { title: "offset", align: "right" },
    { title: "elements", align: "right" },
    { title: "shape" },
    ...(inFiles ? [{ title: "file", cut: "middle" as const }] : []),
    { title: "name", cut: "middle" },
  ];
  const rows = tensors.map((tensor) => [
    { text: tensor.dtype, style: context.colors.cyan },
    String(tensor.byteLength),
    String(tensor.offset),
    formatInteger(tensor.elementCount),
    formatShape(tensor.shape),
    ...(inFiles ? [printable(tensor.file ?? "")] : []),
    printable(tensor.name),
  ]);
  return renderTable(columns, rows, { width: context.width, styleTitle: context.colors.dim });
}

function renderEntries(
  entries: readonly Entry[],
  detail: "short" | "long",
  context: Context,
): string | Iterable<string> {
  const isLong = detail === "long";
  const unitMs = isLong ? 1000 : 60_000;
  const mode: ValueColumn<Entry> = { value: (entry) => entry.mode ?? -1, text: modeText };
  const size: ValueColumn<Entry> = {
    align: "right",
    value: (entry) => (entry.type === "directory" ? -1 : entry.size),
    text: (value) => (value < 0 ? "–" : isLong ? String(value) : formatSize(value)),
  };
  const time: ValueColumn<Entry> = {
    value: ({ modified }) => (modified === undefined ? Number.NaN : Math.floor(modified / unitMs)),
    text: (value) => (Number.isNaN(value) ? "" : timeText(value * unitMs).slice(0, isLong ? 19 : 16)),
  };
  const nameOf = ({ path, type }: Entry): string => {
    const name = ASCII.test(path) ? path : printable(path);
    return type === "directory" ? `${name}/` : name;
  };
  const shown = isLong ? [mode, size, time] : [size, time];
  if (context.width === undefined) return renderValues(entries, shown, nameOf);
  const columns: Column[] = [...shown.map(({ align }) => (align === undefined ? {} : { align })), { cut: "middle" }];
  const rows = entries.map((entry) => [...shown.map(({ value, text }) => text(value(entry))), nameOf(entry)]);
  return renderTable(columns, rows, { width: context.width });
}

function timeText(ms: number): string {
  return new Date(ms).toISOString().replace("T", " ");
}

/** Times of files that were written together are often the same: that is then made once. */
function isoTimes(): (modified: number) => string {
  let known: number | undefined;
  let text = "";
  return (modified) => {
    if (modified !== known) text = new Date(modified).toISOString();
    known = modified;
    return text;
  };
}

/** "0644", as chmod takes it. */
function modeText(mode: number): string {
  return mode < 0 ? "" : mode.toString(8).padStart(4, "0");
}
