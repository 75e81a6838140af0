export { AERO_ERRORS } from "../../catalog/formats/aero.ts";
export { AeroModel } from "./aero-model.ts";
export { aero } from "./index.ts";
export { AERO_LIMITS, type AeroLimits } from "./limits.ts";
export { openAero } from "./open.ts";
