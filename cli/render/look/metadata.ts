import { type Bytes, concatBytes } from "../../../src/base/bytes.ts";
import { formatInteger, plural } from "../../../src/base/figures.ts";
import { encodeHex, encodeUtf8, printable } from "../../../src/base/text.ts";
import { type Metadata, type MetadataValue, plainValue } from "../../../src/model/metadata.ts";
import type { Context } from "../../context.ts";
import { renderTable } from "../table.ts";
import { cutEnd } from "../text-width.ts";

/** Items of an array or a map that one line shows. */
const SHOWN_ITEMS = 4;

/** One line for each key. */
export function renderMetadata({ entries }: Metadata, { colors, width }: Context): string {
  if (entries.length === 0) return colors.dim("the file has no metadata");
  const rows = entries.map(({ key, value }) => [{ text: printable(key), style: colors.cyan }, valueText(value)]);
  return renderTable([{ cut: "middle" }, { cut: "end" }], rows, { width });
}

/** A value whole: the items of an array one a line, everything else on one line. */
export function renderValue(value: MetadataValue): string | Iterable<string> {
  return value.type === "array" ? itemLines(value.slice()) : wholeText(value);
}

function* itemLines(items: readonly MetadataValue[]): Generator<string> {
  for (const [i, item] of items.entries()) yield i + 1 < items.length ? `${wholeText(item)}\n` : wholeText(item);
}

function wholeText(value: MetadataValue): string {
  switch (value.type) {
    case "string":
      return printable(value.value);
    case "bytes":
      return encodeHex(value.value);
    case "array":
    case "map":
      return printable(JSON.stringify(plainValue(value)));
    default:
      return numberText(value);
  }
}

/** A value as its bytes: of an array the items, each with a line break after it. */
export function rawValue(value: MetadataValue): Bytes {
  if (value.type === "array") {
    return concatBytes(value.slice().flatMap((item) => [rawValue(item), encodeUtf8("\n")]));
  }
  if (value.type === "string") return value.raw ?? encodeUtf8(value.value);
  return value.type === "bytes" ? value.value : encodeUtf8(wholeText(value));
}

/** One line for any value; long arrays by their length and first items. */
export function valueText(value: MetadataValue, maxText = Number.POSITIVE_INFINITY): string {
  const text = (item: MetadataValue): string => valueText(item, maxText);
  switch (value.type) {
    case "string":
      return `"${printable(value.value.length > maxText ? cutEnd(value.value, maxText) : value.value)}"`;
    case "bytes":
      return plural(value.value.byteLength, "byte");
    case "array": {
      const items = value.slice(0, SHOWN_ITEMS).map(text).join(", ");
      return value.length <= SHOWN_ITEMS ? `[${items}]` : `${formatInteger(value.length)} items: ${items}, …`;
    }
    case "map": {
      const items = value.entries.slice(0, SHOWN_ITEMS).map((entry) => `${printable(entry.key)}: ${text(entry.value)}`);
      return `{${items.join(", ")}${value.entries.length > SHOWN_ITEMS ? ", …" : ""}}`;
    }
    default:
      return numberText(value);
  }
}

function numberText(value: Exclude<MetadataValue, { readonly type: "string" | "bytes" | "array" | "map" }>): string {
  if (value.type === "null") return "null";
  const { value: held } = value;
  // A float32 has seven digits that people mean; more would only show how it is stored.
  return value.type === "f32" && !Number.isInteger(held) ? String(Number(value.value.toPrecision(7))) : String(held);
}
