import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8 } from "../../base/text.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";
import { MODEL } from "./layout.ts";

/** Field 1, varint. Protobuf writers put it first, and ONNX has no other magic. */
const IR_VERSION_TAG = 0x08;

/** ONNX: what is known before its code is loaded, and the loaders of the rest. */
export const onnx: Format = {
  id: "onnx",
  name: "ONNX",
  kind: "model",
  extensions: [".onnx"],
  access: "read",
  sniff: (head) => (head.bytes[0] === IR_VERSION_TAG ? sniffOnnx(head) : "no"),
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
};

/** Versions of the intermediate representation go up to 13 so far. Files of later versions are still recognised. */
const MAX_IR_VERSION = 127;
/** Longest producer or domain; they are words. */
const MAX_WORD_BYTES = 1 << 10;

const VARINTS: ReadonlySet<number> = new Set([MODEL.irVersion, MODEL.modelVersion]);
const WORDS: ReadonlySet<number> = new Set([MODEL.producerName, MODEL.producerVersion, MODEL.domain]);
/** doc_string, opset_import, metadata_props, training_info, functions, configuration: skipped unread. */
const OTHERS: ReadonlySet<number> = new Set([6, 8, 14, 20, 25, 26]);
/** First bytes of a graph: a node, its name, an initializer, a doc string, an input, an output. */
const GRAPH_TAGS: ReadonlySet<number> = new Set([0x0a, 0x12, 0x2a, 0x52, 0x5a, 0x62]);

/**
 * ONNX has no magic. A ModelProto begins with ir_version, and every field up to the graph must be in the schema, with
 * the right wire type. Never throws.
 */
export function sniffOnnx(head: Head): SniffResult {
  const { bytes } = head;
  // Field 1, varint: protobuf writers put it first.
  if (bytes[0] !== 0x08) return "no";
  const version = varint(bytes, 1);
  if (version === undefined || version.value < 1 || version.value > MAX_IR_VERSION) return "no";
  let position = version.end;
  while (position < bytes.byteLength) {
    const tag = varint(bytes, position);
    if (tag === undefined) break;
    const [number, wire] = [Math.floor(tag.value / 8), tag.value % 8];
    const length = varint(bytes, tag.end);
    if (length === undefined) break;
    if (wire === 0 && VARINTS.has(number)) {
      position = length.end;
      continue;
    }
    if (wire !== 2) return "no";
    if (number === MODEL.graph) return beginsGraph(bytes, length) ? "yes" : "no";
    if (WORDS.has(number) && !isWord(bytes, length)) return "no";
    if (!WORDS.has(number) && !OTHERS.has(number)) return "no";
    position = length.end + length.value;
  }
  return "possible";
}

/** A graph that is cut off at its first byte still counts. */
function beginsGraph(bytes: Bytes, { value, end }: Varint): boolean {
  const first = bytes[end];
  return value > 0 && (first === undefined || GRAPH_TAGS.has(first));
}

function isWord(bytes: Bytes, { value, end }: Varint): boolean {
  if (value > MAX_WORD_BYTES) return false;
  const text = decodeUtf8(bytes.subarray(end, end + value));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this looks for
  return text === undefined ? end + value > bytes.byteLength : !/[\u0000-\u0008\u000e-\u001f]/.test(text);
}

interface Varint {
  readonly value: number;
  readonly end: number;
}

/** Undefined if it does not end within the bytes, or is beyond 2^53. */
function varint(bytes: Bytes, start: number): Varint | undefined {
  let value = 0;
  for (let i = 0; i < 8; i++) {
    const byte = bytes[start + i];
    if (byte === undefined) return undefined;
    value += (byte & 0x7f) * 2 ** (7 * i);
    if (byte < 0x80) return value <= Number.MAX_SAFE_INTEGER ? { value, end: start + i + 1 } : undefined;
  }
  return undefined;
}
