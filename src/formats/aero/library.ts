export { AERO_ERRORS } from "../../catalog/formats/aero.ts";
export { aero } from "./index.ts";
export { AERO_LIMITS, type AeroLimits } from "./limits.ts";
export { AeroModel } from "./model.ts";
export { openAero } from "./read.ts";
