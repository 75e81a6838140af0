import type { Warned } from "../../model/finding.ts";
import { type LayoutRow, mapLayout } from "../../operations/map.ts";
import { requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions } from "../options.ts";

export interface MapOptions extends CommonOptions {}

/** What `tare map --json` prints. */
export interface MapResult extends Warned {
  readonly format: string;
  readonly parts: readonly { readonly label: string; readonly byteLength: number }[];
  /** Every byte of every file, in order. */
  readonly rows: readonly LayoutRow[];
}

export async function map(host: VerbHost, input: Input, options: MapOptions = {}): Promise<MapResult> {
  const request = await requestOf(host, "map", options, COMMON_RULES);
  return withInput(host, input, request, async (opened) => {
    const { container } = opened;
    if (container.kind === "model") await container.openParts?.();
    const rows = mapLayout(opened);
    const parts = container.parts.map(({ label, byteLength }) => ({ label, byteLength }));
    return { format: container.format, parts, rows };
  });
}
