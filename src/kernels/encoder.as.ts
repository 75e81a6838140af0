// The functions in which a BERT encoder spends its time. All pointers and strides are in bytes. Widths are in floats
// and multiples of 8; the caller pads with zeros. The memory is imported, so that several threads can share one.
//
// This file is compiled with and without relaxed SIMD. With it, a product and its sum are one rounded operation if the
// processor has one; without it they are two. Only with it is the product of bytes faster than that of i16. Nothing
// else differs.

export { gemm } from "./encoder/gemm.as";
export { gemmInt8, quantizeRows } from "./encoder/gemm-int8.as";
export { gemmBytes } from "./encoder/gemm-bytes.as";
export { quantizeBytes } from "./encoder/quantize-bytes.as";
export { attend } from "./encoder/attention.as";
export { packPanel, packPanelBytes, packPanelInt8, widenBrains, widenHalves } from "./encoder/pack.as";
export { activate, addRows, normalizeRows } from "./encoder/rows.as";
