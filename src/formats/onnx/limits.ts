import { defineLimits } from "../../base/limits.ts";

/** Bounds on what this reader holds in memory; overridable per open. */
export const ONNX_LIMITS = defineLimits({
  controlBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason: "Everything but tensor data is read: names, shapes, nodes. Graphs of large language models take 50 MB",
    provenance: "tare",
  },
  nodes: {
    default: 4_000_000,
    unit: "entries",
    reason: "Nodes that can lead to a weight's name are kept in memory; the largest graphs have 100 000",
    provenance: "tare",
  },
  initializers: {
    default: 1_000_000,
    unit: "entries",
    reason: "Every initializer, and every tensor of a node, becomes a tensor in memory",
    provenance: "tare",
  },
  textBytes: {
    default: 1 << 20,
    unit: "bytes",
    reason: "Names and metadata values are held as text; the longest names have a few hundred bytes",
    provenance: "tare",
  },
  dimensions: {
    default: 1024,
    unit: "dimensions",
    reason: "The format has no bound; array libraries stop at 64 dimensions",
    provenance: "tare",
  },
  dataPieces: {
    default: 65_536,
    unit: "entries",
    reason: "Protobuf lets a list be cut into pieces; writers use one",
    provenance: "tare",
  },
  typedDataBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason: "Integers stored as varints are decoded in memory; large tensors are stored as raw_data",
    provenance: "tare",
  },
  externalFiles: {
    default: 10_000,
    unit: "entries",
    reason: "Every file with external data is opened; a writer may use one for each tensor",
    provenance: "tare",
  },
});
