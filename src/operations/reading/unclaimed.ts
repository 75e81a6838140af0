import type { Bytes } from "../../base/bytes.ts";
import { type Extent, planBatches } from "../../bytes/extents.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import type { Opened } from "../../model/format.ts";
import type { Model, Part } from "../../model/model.ts";
import { type LayoutRow, mapLayout } from "../map.ts";

/** Bytes of a model's files that nothing refers to: what a conversion loses, and what verifying says of them. */

/** Bytes read at a time while looking for a byte that is not zero. */
const STEP = 1 << 20;
/** Uses one read for paddings that are close together, such as those between small tensors. */
const BATCH = { maxGap: 64 << 10, maxBytes: STEP } as const;
/** Most runs that are listed; above this, only their number is reported. */
const MAX_LISTED = 20;

/**
 * Runs of a model's files that belong to nothing and are not all zeros: gaps, padding, and bytes that a tensor has
 * stored after its last element. A writer has no place for them, so a conversion loses them. In remote files only the
 * end is read, and gaps that no alignment explains, because every padding may cost a request. Also what the format itself
 * finds in its tables.
 */
export async function unclaimedBytes(opened: Opened, signal?: AbortSignal): Promise<readonly Loss[]> {
  const { container } = opened;
  if (container.kind !== "model") return [];
  const surplus = (await container.findSurplus?.({ signal })) ?? [];
  const idle = idleRuns([...mapLayout(opened), ...slackOf(container)], container.parts);
  const found: Loss[] = [];
  for (const [part, file] of container.parts.entries()) {
    for (const { name, offset, byteLength } of await filledRuns(file, idle[part] ?? [], signal)) {
      const where = container.parts.length > 1 ? ` of ${file.label}` : "";
      found.push(lossOf(name, { offset, byteLength, label: file.label }, where));
    }
  }
  const more = found.length - MAX_LISTED;
  const [next] = found.slice(MAX_LISTED);
  if (next?.at === undefined) return [...surplus, ...found];
  return [...surplus, ...found.slice(0, MAX_LISTED), { name: `${more} more runs`, reason: NOTHING, at: next.at }];
}

/** The same within some runs of one part, wherever the file is: writing over them loses what they hold. */
export async function unclaimedWithin(
  opened: Opened,
  { label, runs }: { readonly label: string; readonly runs: readonly Extent[] },
  signal?: AbortSignal,
): Promise<readonly Loss[]> {
  const part = opened.container.parts.findIndex((candidate) => candidate.label === label);
  const file = opened.container.parts[part];
  if (file === undefined) return [];
  const rows = mapLayout(opened).filter((row) => row.part === part && (row.kind === "gap" || isPadding(row)));
  const cut = rows.flatMap((row) => runs.flatMap((run) => overlapOf(row, run)));
  const filled = await filledRuns(file, cut, signal);
  return filled.slice(0, MAX_LISTED).map(({ name, offset, byteLength }) => lossOf(name, { offset, byteLength, label }));
}

function overlapOf(row: LayoutRow, run: Extent): LayoutRow[] {
  const offset = Math.max(row.offset, run.offset);
  const end = Math.min(row.offset + row.byteLength, run.offset + run.byteLength);
  return end > offset ? [{ ...row, offset, byteLength: end - offset }] : [];
}

/** The runs of each part that belong to nothing; looks at every row once, however many parts there are. */
export function idleRuns(rows: readonly LayoutRow[], parts: readonly Part[]): readonly (readonly LayoutRow[])[] {
  const idle: LayoutRow[][] = parts.map(() => []);
  for (const row of rows) {
    const file = parts[row.part];
    if (file === undefined || file.layout === "unplaced" || row.byteLength === 0) continue;
    if (isIdle(row)) idle[row.part]?.push(row);
  }
  return idle;
}

/**
 * What verifying a model says of bytes that belong to nothing, and of padding that is not zero. `told` is what was found
 * so far: formats have words of their own for what follows their last part.
 */
export async function* unclaimedFindings(
  opened: Opened,
  told: readonly Finding[],
  { padding, signal }: { readonly padding: "checked" | undefined; readonly signal?: AbortSignal | undefined },
): AsyncGenerator<Finding> {
  const { container } = opened;
  if (container.kind !== "model") return;
  const idle = idleRuns(mapLayout(opened), container.parts);
  for (const [part, file] of container.parts.entries()) {
    const runs = (idle[part] ?? []).filter((run) =>
      run.kind === "gap" ? !isTold(run, file, told) : padding === undefined,
    );
    const filled = new Set(await filledRuns(file, runs, signal));
    // Zeros between parts are room that an edit in place left. They hide nothing, and `map` shows them.
    const isOdd = (run: LayoutRow): boolean => run.kind === "gap" && run.offset + run.byteLength === file.byteLength;
    const found = runs.filter((run) => filled.has(run) || isOdd(run));
    for (const run of found.slice(0, MAX_LISTED)) yield idleFinding(run, file, filled.has(run) ? "filled" : "zeros");
    if (found.length > MAX_LISTED) yield moreIdle(found.slice(MAX_LISTED), file);
  }
}

function isTold({ offset, byteLength }: LayoutRow, { label }: Part, told: readonly Finding[]): boolean {
  return told.some(({ code, at }) => {
    if (at.source !== label) return false;
    const isHere = at.offset !== undefined && at.offset >= offset && at.offset <= offset + byteLength;
    return isHere || code.endsWith(".trailing-bytes");
  });
}

function idleFinding(run: LayoutRow, { label, byteLength: end }: Part, content: "filled" | "zeros"): Finding {
  const { offset, byteLength } = run;
  const at = { source: label, offset, byteLength };
  if (run.kind !== "gap") {
    const message = `Padding must be zero: the ${byteLength} bytes from ${offset} on are not`;
    return { severity: "note", code: "format/padding", message, at };
  }
  const where = offset + byteLength === end ? ", after the last part of the file" : "";
  const zeros = content === "zeros" ? "; all of them are zero" : "";
  const message = `Unclaimed: nothing in the file refers to the ${byteLength} bytes from ${offset} on${where}${zeros}`;
  return { severity: content === "zeros" ? "note" : "warning", code: "format/unclaimed", message, at };
}

function moreIdle(runs: readonly LayoutRow[], { label }: Part): Finding {
  const byteLength = runs.reduce((sum, run) => sum + run.byteLength, 0);
  const message = `Unclaimed, or padding that is not zero: ${runs.length} more runs, ${byteLength} bytes`;
  return {
    severity: "warning",
    code: "format/unclaimed",
    message,
    at: { source: label, offset: runs[0]?.offset ?? 0 },
  };
}

const NOTHING = "nothing in the file refers to them";
const SLACK = "slack";
const REASONS: Readonly<Record<string, string>> = {
  padding: "padding that is not zero",
  [SLACK]: "they are stored with a tensor, after its last element",
};

/** SafeTensors pads its header with spaces, which are JSON. */
const SPACES = "header padding";

/** Also in vaults and downloads: what is lost there would be lost without a word. */
function isIdle(row: LayoutRow): boolean {
  return row.kind === "gap" || isPadding(row);
}

function isPadding({ kind, name }: LayoutRow): boolean {
  return kind === "padding" && name !== SPACES;
}

function lossOf(name: string, { label, offset, byteLength }: Extent & { readonly label: string }, where = ""): Loss {
  const at = { source: label, offset, byteLength };
  return { name: `${byteLength} bytes from ${offset}${where}`, reason: REASONS[name] ?? NOTHING, at };
}

function slackOf({ slack = [] }: Model): LayoutRow[] {
  return slack.map((run) => ({ ...run, kind: "padding", name: SLACK }));
}

async function filledRuns(
  { source }: Part,
  runs: readonly LayoutRow[],
  signal: AbortSignal | undefined,
): Promise<readonly LayoutRow[]> {
  const filled: LayoutRow[] = [];
  const sorted = [...runs].sort((a, b) => a.offset - b.offset);
  for (const batch of planBatches(sorted, BATCH)) {
    const [only] = batch.members;
    if (batch.byteLength > STEP && only !== undefined) {
      if (await isFilled(source, only, signal)) filled.push(only);
      continue;
    }
    const bytes = await source.read(batch.offset, batch.byteLength, { signal });
    for (const run of batch.members) {
      const start = run.offset - batch.offset;
      if (hasValue(bytes.subarray(start, start + run.byteLength))) filled.push(run);
    }
  }
  return filled;
}

/** For a run that is too long to be read at once. */
async function isFilled(source: Part["source"], run: LayoutRow, signal: AbortSignal | undefined): Promise<boolean> {
  for (let at = 0; at < run.byteLength; at += STEP) {
    const bytes = await source.read(run.offset + at, Math.min(STEP, run.byteLength - at), { signal });
    if (hasValue(bytes)) return true;
  }
  return false;
}

function hasValue(bytes: Bytes): boolean {
  return bytes.some((byte) => byte !== 0);
}
