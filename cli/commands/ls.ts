import { printable } from "../../src/base/text.ts";
import type { Entry } from "../../src/model/archive.ts";
import { formatShape } from "../../src/model/shape.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { formatInteger, formatSize } from "../render/sizes.ts";
import { type Column, renderTable } from "../render/table.ts";
import { selectByName, selectTensors } from "../select-tensors.ts";

export const lsCommand = defineCommand({
  positionals: { names: ["TARGET", "GLOB"], min: 1, max: 2 },
  flags: {
    long: { kind: "switch", short: "l", summary: "exact sizes, offsets and files too" },
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
    if (container.kind === "archive") {
      const entries = selectByName(container.entries, globs, { nameOf: (e) => e.path, what: "entry", label });
      await context.show({
        json: () => ({ format: container.format, entries: entries.map(entryJson) }),
        text: () => renderEntries(entries, context),
      });
      return EXIT.success;
    }
    const tensors = selectTensors(container.tensors, globs, label);
    await context.show({
      json: () => ({ format: container.format, tensors: tensors.map(tensorJson) }),
      text: () => (flags.long === true ? renderLong(tensors, context) : renderShort(tensors, context)),
    });
    return EXIT.success;
  },
});

function tensorJson(tensor: Tensor): unknown {
  const { name, dtype, shape, byteLength, offset, file, storedByteLength } = tensor;
  const stored = storedByteLength === byteLength ? {} : { storedByteLength };
  return { name, dtype, shape, byteLength, offset, ...stored, ...(file === undefined ? {} : { file }) };
}

function entryJson(entry: Entry): unknown {
  const { path, type, size, modified } = entry;
  return { path, type, size, ...(modified === undefined ? {} : { modified: new Date(modified).toISOString() }) };
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

function renderEntries(entries: readonly Entry[], context: Context): string {
  const columns: Column[] = [{ align: "right" }, {}, { cut: "middle" }];
  const rows = entries.map((entry) => [
    entry.type === "directory" ? "–" : formatSize(entry.size),
    entry.modified === undefined ? "" : new Date(entry.modified).toISOString().slice(0, 16).replace("T", " "),
    printable(entry.path) + (entry.type === "directory" ? "/" : ""),
  ]);
  return renderTable(columns, rows, { width: context.width });
}
