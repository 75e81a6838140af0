import type { Format, Head, SniffResult } from "../../model/format.ts";

/** Field 1, varint: protobuf writers put it first, and it is all the magic that ONNX has. */
const IR_VERSION_TAG = 0x08;

/** ONNX: what is known before a file asks for it, and what loads the rest. */
export const onnx: Format = {
  id: "onnx",
  name: "ONNX",
  kind: "model",
  extensions: [".onnx"],
  access: "read",
  sniff: (head) => (head.bytes[0] === IR_VERSION_TAG ? sniffFields(head) : "no"),
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
};

/** What knows the schema is loaded by files that begin as one of it does. */
async function sniffFields(head: Head): Promise<SniffResult> {
  return (await import("./sniff.ts")).sniffOnnx(head);
}
