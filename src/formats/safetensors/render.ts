import type { Bytes } from "../../base/bytes.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { MetadataEntry } from "../../model/metadata.ts";
import type { Shape } from "../../model/shape.ts";
import { dtypeRow, type SafetensorsDType } from "./dtypes.ts";
import { METADATA_KEY } from "./header.ts";
import { LENGTH_BYTES } from "./sniff.ts";

/** What the header says of a tensor, without its place. */
export interface HeaderTensor {
  readonly name: string;
  readonly dtype: SafetensorsDType;
  readonly shape: Shape;
  readonly byteLength: number;
}

/** `__metadata__` as it is to be written; "null" and "empty" are two ways of having none. */
export type MetadataForm = "absent" | "null" | "empty" | readonly MetadataEntry[];

/** The header length is a multiple of this, filled up with spaces, so that the data behind it is aligned. */
export const HEADER_ALIGNMENT = 8;

/** The header exactly as the reference writer renders it, padding included; data in the order given. */
export function renderHeader(form: MetadataForm, tensors: readonly HeaderTensor[]): string {
  const members: string[] = [];
  if (form !== "absent") members.push(`"${METADATA_KEY}":${renderMetadata(form)}`);
  let begin = 0;
  for (const { name, dtype, shape, byteLength } of tensors) {
    const end = begin + byteLength;
    members.push(
      `${JSON.stringify(name)}:{"dtype":"${dtype}","shape":[${shape.join(",")}],"data_offsets":[${begin},${end}]}`,
    );
    begin = end;
  }
  const text = `{${members.join(",")}}`;
  const byteLength = encodeUtf8(text).byteLength;
  return text + " ".repeat(alignUp(byteLength, HEADER_ALIGNMENT) - byteLength);
}

/** The length field and the header. */
export function encodeHeader(text: string): Bytes {
  const body = encodeUtf8(text);
  const bytes = new Uint8Array(LENGTH_BYTES + body.byteLength);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(body.byteLength), true);
  bytes.set(body, LENGTH_BYTES);
  return bytes;
}

/** The reference writer's order: dtype rank, then name by its UTF-8 bytes. */
export function compareStandard(a: HeaderTensor, b: HeaderTensor): number {
  return rankOf(a) - rankOf(b) || compareByUtf8(a.name, b.name);
}

/** The order of UTF-8 bytes, which is that of code points and not that of JavaScript's UTF-16 units. */
export function compareByUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return codePointWeight(x) - codePointWeight(y);
  }
  return a.length - b.length;
}

/** Surrogates stand for code points above every other unit, so they move from 0xd800 to 0x10000 and up. */
function codePointWeight(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x2800 : unit;
}

function rankOf(tensor: HeaderTensor): number {
  return dtypeRow(tensor.dtype)?.rank ?? 0;
}

function renderMetadata(form: Exclude<MetadataForm, "absent">): string {
  if (form === "null") return "null";
  if (form === "empty") return "{}";
  const members = form.map(({ key, value }) => {
    return `${JSON.stringify(key)}:${JSON.stringify(value.type === "string" ? value.value : "")}`;
  });
  return `{${members.join(",")}}`;
}
