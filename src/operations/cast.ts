export { castTensor, encodeFloats, type FloatTarget, isCastable } from "../model/cast.ts";
