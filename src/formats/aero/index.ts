export { AeroModel } from "./aero-model.ts";
export { AERO_ERRORS } from "./errors.ts";
export { aero } from "./format.ts";
export { AERO_LIMITS, type AeroLimits } from "./limits.ts";
export { openAero } from "./open.ts";
