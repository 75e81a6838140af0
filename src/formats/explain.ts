import { type Location, type TareError, UnsupportedError, UsageError } from "../base/errors.ts";
import type { LimitOverrides } from "../base/limits.ts";
import { nearestFirst } from "../base/nearest.ts";
import { encodeHex } from "../base/text.ts";
import type { Format, Head } from "../model/format.ts";
import { zerosOnly } from "./damage.ts";
import { recogniseForeign } from "./foreign.ts";

export { hubFileAddress } from "../bytes/http/hub.ts";
export { explainDamage } from "./damage.ts";
export { modelEntry } from "./folders.ts";

/**
 * What to make of names and files that cannot be opened as they are, and of limits that do not exist: loaded when a call
 * meets one.
 */

/** The error for content that is no model as it is: foreign, or nothing but zeros. Undefined if it is not known. */
export function describeUnopened(head: Head, label: string): TareError | undefined {
  const zeros = zerosOnly(head, label);
  if (zeros !== undefined) return zeros;
  const foreign = recogniseForeign(head);
  if (foreign === undefined) return undefined;
  const { code, what, hint } = foreign;
  return new UnsupportedError(code, `Cannot open: this is ${what}`, { source: label, offset: 0 }, { hint });
}

/** The error for content that nothing is known of. */
export function describeUnknown({ bytes, byteLength }: Head, formats: readonly Format[], at: Location): TareError {
  const shown = encodeHex(bytes.slice(0, 8)).replace(/(..)(?=.)/g, "$1 ");
  const message = `Cannot recognise the content: ${byteLength} bytes that begin with ${shown}`;
  const hint = `tare reads ${formats.map((format) => format.name).join(", ")}`;
  return new UnsupportedError("unsupported/unknown", message, at, { hint });
}

/** What is wrong with limits that a caller gives, and what there is. */
export interface LimitsFault {
  readonly reason: string;
  readonly hint: string;
}

/** The first name in limits that no format has: without effect, it would only seem to protect. Undefined if there is none. */
export async function findLimitsFault(
  limits: LimitOverrides,
  formats: readonly Format[],
): Promise<LimitsFault | undefined> {
  for (const [id, own = {}] of Object.entries(limits)) {
    const format = formats.find((candidate) => candidate.id === id);
    const names = format === undefined ? formats.map((one) => one.id) : Object.keys((await format.read()).limits);
    const typed = format === undefined ? id : Object.keys(own).find((name) => !names.includes(name));
    if (typed === undefined) continue;
    const what = format === undefined ? "format" : `limit of ${id}`;
    return { reason: `there is no ${what} "${typed}"`, hint: nearestFirst(typed, names, "There are") };
  }
  return undefined;
}

/** Refuses limits that no format has. Those of formats that a caller brings count too. */
export async function checkLimits(
  verb: string,
  {
    limits = {},
    formats = [],
  }: { readonly limits?: LimitOverrides | undefined; readonly formats?: readonly Format[] | undefined },
  known: readonly Format[] = [],
): Promise<void> {
  const fault = await findLimitsFault(limits, [...formats, ...known]);
  if (fault === undefined) return;
  const message = `Cannot use the option limits of ${verb}: ${fault.reason}`;
  throw new UsageError("usage/option-value", message, { source: verb, path: "limits" }, { hint: fault.hint });
}
