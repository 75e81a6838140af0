import { UnsupportedError, UsageError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Output } from "../../bytes/sink.ts";
import type { Container } from "../../model/archive.ts";
import type { FormatRestamp, RestampPiece } from "../../model/capabilities.ts";
import type { FormatWriter, WriteContext, WritePlan } from "../../model/format.ts";
import type { Metadata } from "../../model/metadata.ts";
import { writeFiles } from "../../model/pieces.ts";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { encodeHeader, HEADER_ALIGNMENT, type Header, METADATA_KEY } from "./header.ts";
import { LENGTH_BYTES, safetensors } from "./index.ts";
import { type SafetensorsFile, SafetensorsModel } from "./model.ts";
import { checkPlannedHeader, planSafetensors, type SafetensorsPlan } from "./plan.ts";

/** Writes what `planSafetensors` decided. The files appear together, an index last. */
export async function writeSafetensors(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  // The plan is our own: operations pass back what `plan` gave them.
  await writeFiles((plan as SafetensorsPlan).files, output, context);
}

/** Edits `__metadata__`. Every other character of the header stays; the spaces after it shrink or grow. */
const safetensorsRestamp: FormatRestamp = {
  values: "text",
  fixedKeys: [],
  target(container) {
    const { source } = ownFile(container);
    return { source, metadata: (container as SafetensorsModel).metadata };
  },
  async plan(container, metadata) {
    return planPieces(ownFile(container), metadata);
  },
};

function ownFile(container: Container): SafetensorsFile {
  const label = container.parts[0]?.label ?? container.format;
  if (!(container instanceof SafetensorsModel)) {
    const message = `Cannot treat a ${container.format} container as SafeTensors`;
    throw new UsageError("usage/stamp.container", message, { source: label });
  }
  const [file] = container.files;
  if (file !== undefined && container.parts.length === 1) return file;
  const message = "Cannot edit the metadata of a SafeTensors set: must be one file";
  throw new UnsupportedError(
    "unsupported/stamp.set",
    message,
    { source: label },
    { hint: "Name one of its files, or make one of them all with: tare merge" },
  );
}

function planPieces({ source, header }: SafetensorsFile, metadata: Metadata): readonly RestampPiece[] {
  const { dataStart } = header;
  const text = editText(header, metadata);
  const byteLength = encodeUtf8(text).byteLength;
  const room = dataStart - LENGTH_BYTES;
  const padded = byteLength <= room ? room : alignUp(byteLength, HEADER_ALIGNMENT);
  checkPlannedHeader(padded, source.label);
  const bytes = encodeHeader(text + " ".repeat(padded - byteLength));
  return [
    { kind: "bytes", bytes },
    { kind: "copy", offset: dataStart, byteLength: source.byteLength - dataStart },
  ];
}

/** The header without its padding, with the value of `__metadata__` replaced or inserted first. */
function editText({ text, jsonEnd, scanner }: Header, metadata: Metadata): string {
  const json = text.slice(0, jsonEnd);
  const value = renderStrings(metadata);
  const again = new JsonScanner(json, scanner.place);
  let place: readonly [number, number] | undefined;
  let members = 0;
  again.skipSpace();
  const open = again.position + 1;
  again.readObject((key) => {
    const start = again.position;
    again.skipValue();
    members++;
    if (key === METADATA_KEY) place = [start, again.position];
  });
  if (place !== undefined) return json.slice(0, place[0]) + value + json.slice(place[1]);
  if (metadata.size === 0) return json;
  return `${json.slice(0, open)}"${METADATA_KEY}":${value}${members === 0 ? "" : ","}${json.slice(open)}`;
}

function renderStrings(metadata: Metadata): string {
  const members = metadata.entries.map(
    ({ key }) => `${JSON.stringify(key)}:${JSON.stringify(metadata.text(key) ?? "")}`,
  );
  return `{${members.join(",")}}`;
}

export const writer: FormatWriter = {
  format: safetensors,
  options: ["maxShardBytes"],
  naming: { model: "model_name", architecture: "architecture" },
  restamp: safetensorsRestamp,
  plan: planSafetensors,
  write: writeSafetensors,
};
