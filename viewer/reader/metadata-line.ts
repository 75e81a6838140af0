import type { MetadataValue } from "../../src/model/metadata.ts";
import type { MetadataLine } from "./protocol.ts";

/** Characters of a text that are shown before it is opened. */
const SHORT_TEXT = 160;
/** Elements of a list that are shown before it is opened. */
const SHORT_LIST = 6;

/** A value in one line: what it is, and as much of it as a glance takes. */
export function describeValue(value: MetadataValue): Omit<MetadataLine, "key"> {
  switch (value.type) {
    case "null":
      return { type: "null", text: "null" };
    case "string":
      return { type: "string", text: shorten(value.value) };
    case "bytes":
      return { type: "bytes", text: `${value.value.byteLength} bytes` };
    case "array": {
      const shown = value.slice(0, SHORT_LIST).map((item) => describeValue(item).text);
      const rest = value.length > shown.length ? ", …" : "";
      const of = value.elementType === undefined ? "list" : `${value.elementType}[]`;
      return { type: of, text: shorten(`[${shown.join(", ")}${rest}]`), length: value.length };
    }
    case "map":
      return {
        type: "map",
        text: shorten(value.entries.map(({ key }) => key).join(", ")),
        length: value.entries.length,
      };
    default:
      return { type: value.type, text: String(value.value) };
  }
}

function shorten(text: string): string {
  return text.length > SHORT_TEXT ? `${text.slice(0, SHORT_TEXT)}…` : text;
}
