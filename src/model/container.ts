import type { Archive } from "./archive.ts";
import type { Model } from "./model.ts";

/** An opened file, whatever its format. */
export type Container = Model | Archive;
