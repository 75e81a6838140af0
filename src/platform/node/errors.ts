import type { Location, TareError } from "../../base/errors.ts";
import { errnoOf, systemError } from "../../base/system-errors.ts";

export { errnoOf } from "../../base/system-errors.ts";

/** Turns what node:fs throws into one of our errors: `action` is a whole sentence start, "Cannot open \"x\"". */
export function fileError(error: unknown, action: string, at: Location): TareError {
  return systemError(errnoOf(error) ?? "unexpected failure", action, at, { cause: error });
}
