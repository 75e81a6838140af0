export { SIDECAR_SUFFIX } from "./layout.ts";
export { readSidecar } from "./read.ts";
export type { Sidecar, SidecarKind, SidecarSegment } from "./sidecar.ts";
