import type { ErrorCatalog } from "../../base/errors.ts";

const ANOTHER_COPY = "Get another copy of the file.";

/** All errors and warnings of ONNX files. */
export const ONNX_ERRORS = {
  "format/onnx.tag": {
    what: "Where a field of a protobuf message must begin there is something else.",
    why: "ONNX files are protobuf messages; the file is damaged, or is no ONNX file.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.varint": {
    what: "A number in the file does not end where it must.",
    why: "Numbers take at most ten bytes; the file was cut short or is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.length": {
    what: "A field is longer than the message that holds it.",
    why: "The file was cut short, or its lengths are damaged or crafted.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.wire-type": {
    what: "A field has another form than the ONNX schema gives it.",
    why: "The file is damaged, or is a protobuf message of another kind.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.number": {
    what: "A dimension or count is negative, or above 2^53 - 1.",
    why: "No tensor has such dimensions; the file is damaged or crafted.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.utf8": {
    what: "A name or text is not UTF-8.",
    why: "Protobuf strings are UTF-8; other bytes are damage.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.no-graph": {
    what: "The file has no graph, or more than one.",
    why: "A model is one graph; without it there are no weights.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.unnamed": {
    what: "An initializer has no name.",
    why: "Nodes refer to initializers by name.",
    fix: "Export the model again.",
  },
  "format/onnx.duplicate-name": {
    what: "Two initializers have the same name.",
    why: "Programs disagree on which of the two counts.",
    fix: "Export the model again.",
  },
  "format/onnx.duplicate-key": {
    severity: "warning",
    what: "A metadata key comes twice.",
    why: "Only the first value is used; the ONNX specification wants keys to be different.",
    fix: "Export the model again if the other value matters.",
  },
  "format/onnx.duplicate-data": {
    what: "A tensor has its values in two places.",
    why: "Only one can count, and programs disagree on which.",
    fix: "Export the model again.",
  },
  "format/onnx.no-data": {
    what: "A tensor has a shape, but no values.",
    why: "The values may have been in another file that the model no longer names.",
    fix: "Export the model again.",
  },
  "format/onnx.data-length": {
    what: "A tensor has more or fewer values than its shape and type need.",
    why: "Reading it would give something else than was written.",
    fix: ANOTHER_COPY,
  },
  "format/onnx.data-field": {
    what: "A tensor's values are in a list that is not for its type.",
    why: "onnx.proto says which list holds which type.",
    fix: "Export the model again.",
  },
  "format/onnx.external": {
    what: "A tensor's reference to another file is not of the right form, or reaches beyond its end.",
    why: "external_data needs a location; offset and length are decimal numbers within that file.",
    fix: "Get the model and its data files again, from the same place.",
  },
  "format/onnx.no-opset": {
    severity: "warning",
    what: "The model does not say which operators it uses.",
    why: "Programs that run it refuse it; the weights are not concerned.",
    fix: "Nothing needs to be done to read its weights.",
  },
  "unsupported/onnx.unread": {
    what: "The graph holds something that is not read as a tensor: strings, sparse, partial or damaged tensors.",
    why: "Weights are dense numbers; the rest is left out when the model is converted.",
    fix: "Convert with --allow-lossy if it is not needed.",
  },
  "limit/onnx.control-bytes": {
    what: "The graph without its weights is longer than this reader accepts.",
    why: "All of it is read to find the weights.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/onnx.nodes": {
    what: "The graph has more nodes than this reader accepts.",
    why: "Nodes are kept in memory to find the names of weights.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/onnx.initializers": {
    what: "The graph has more initializers than this reader accepts.",
    why: "Each becomes a tensor in memory.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/onnx.text-bytes": {
    what: "A name or text is longer than this reader accepts.",
    why: "It is held in memory; no name is that long.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/onnx.dimensions": {
    what: "A tensor has more dimensions than this reader accepts.",
    why: "No program needs that many; a crafted file might.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/onnx.data-pieces": {
    what: "A tensor's values are cut into more pieces than this reader accepts.",
    why: "Writers use one piece; this many only slow readers down.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/onnx.typed-data-bytes": {
    what: "A tensor's values are stored one by one, and there are more of them than this reader decodes.",
    why: "They are decoded in memory; large tensors are stored as raw bytes.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/onnx.external-files": {
    what: "The model names more files with external data than this reader opens.",
    why: "Each is opened to check it.",
    fix: "Raise the limit if you trust the file.",
  },
  "usage/onnx.no-siblings": {
    what: "The model keeps its weights in other files, and those cannot be reached.",
    why: "external_data names files beside the model; a single Blob or a pipe has none.",
    fix: "Open the model in the folder that has its data files too.",
  },
} as const satisfies ErrorCatalog;
