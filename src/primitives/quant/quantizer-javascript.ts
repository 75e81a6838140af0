import { BLOCK_ENCODERS } from "./encode-blocks.ts";
import { type BlockDecoder, decodeQ4_0, decodeQ4_1, decodeQ5_0, decodeQ5_1, decodeQ8_0 } from "./legacy-blocks.ts";
import { countBadBlocks, QUANT_ELEMENTS, type Quantizer, type QuantType } from "./quantizer.ts";

const DECODERS: Readonly<Record<QuantType, BlockDecoder>> = {
  Q8_0: decodeQ8_0,
  Q4_0: decodeQ4_0,
  Q4_1: decodeQ4_1,
  Q5_0: decodeQ5_0,
  Q5_1: decodeQ5_1,
};

/** Plain TypeScript, where WebAssembly or its SIMD is missing. */
export const quantizerJavascript: Quantizer = {
  encode(type, values, into) {
    BLOCK_ENCODERS[type](values, into);
    return countBadBlocks(type, into, values.length / QUANT_ELEMENTS);
  },
  decode: (type, blocks, into) => DECODERS[type](blocks, into),
};
