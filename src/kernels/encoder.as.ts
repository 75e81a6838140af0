// What a BERT encoder spends its time in. All pointers and strides are bytes; widths are floats and multiples of 8, the
// caller pads with zeros. The memory is imported: who embeds on several threads shares one.
//
// This file is compiled twice: with relaxed SIMD a product and its sum are one rounded operation where the processor has
// one, without they are two; and only with it is the product of bytes faster than that of i16. Nothing else differs.

export { gemm } from "./encoder/gemm.as";
export { gemmInt8, quantizeRows } from "./encoder/gemm-int8.as";
export { gemmBytes } from "./encoder/gemm-bytes.as";
export { quantizeBytes } from "./encoder/quantize-bytes.as";
export { attend } from "./encoder/attention.as";
export { packPanel, packPanelBytes, packPanelInt8, widenBrains, widenHalves } from "./encoder/pack.as";
export { activate, addRows, normalizeRows } from "./encoder/rows.as";
