import { type ParityGrid, parityGrid } from "../../model/parity/avec.ts";
import type { Manifest } from "./manifest.ts";

/** Of a vault that records no percentage (dossier 5.2). */
export const DEFAULT_PARITY_PERCENT = 20;

/** The grid of a vault's parity, whether it carries it or a sidecar does. */
export function gridOf({ errorCorrectionPct }: Pick<Manifest, "errorCorrectionPct">): ParityGrid {
  return parityGrid(errorCorrectionPct ?? DEFAULT_PARITY_PERCENT);
}
