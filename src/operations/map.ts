import type { Bytes } from "../base/bytes.ts";
import { findGaps, planBatches } from "../bytes/extents.ts";
import type { Container } from "../model/archive.ts";
import type { DType } from "../model/dtype.ts";
import type { FormatReader, Loss, Opened, Section } from "../model/format.ts";
import type { Model, Part } from "../model/model.ts";

/** One run of one file: a section, a tensor, or bytes that nothing claims. */
export interface LayoutRow {
  /** Index into `container.parts`. */
  readonly part: number;
  readonly offset: number;
  readonly byteLength: number;
  readonly kind: Section["kind"] | "tensor" | "gap";
  readonly name: string;
  readonly dtype?: DType;
}

/** Accounts for every byte of every file, in order. */
export function mapLayout({ container, reader }: Opened): LayoutRow[] {
  const rows: LayoutRow[] = reader.sections(container).map(({ part, offset, byteLength, kind, name }) => {
    return { part, offset, byteLength, kind, name };
  });
  if (container.kind === "model") {
    const partOf = new Map(container.parts.map((part, index) => [part.label, index]));
    for (const tensor of container.tensors) {
      const part = tensor.file === undefined ? 0 : (partOf.get(tensor.file) ?? 0);
      if (container.parts[part]?.layout === "unplaced") continue;
      const { offset, storedByteLength: byteLength, name, dtype } = tensor;
      rows.push({ part, offset, byteLength, kind: "tensor", name, dtype });
    }
  }
  const byPart: LayoutRow[][] = container.parts.map(() => []);
  for (const row of rows) byPart[row.part]?.push(row);
  for (const [part, { byteLength }] of container.parts.entries()) {
    for (const gap of findGaps(byPart[part] ?? [], byteLength))
      rows.push({ part, ...gap, kind: "gap", name: "unused" });
  }
  return rows.sort((a, b) => a.part - b.part || a.offset - b.offset || a.byteLength - b.byteLength);
}

/** Whether a file carries digests of what it holds. */
export function carriesDigests(reader: FormatReader, container: Container): boolean {
  const known = reader.carriesDigests?.(container);
  return known ?? reader.sections(container).some((section) => section.kind === "integrity");
}

/** Read at a time while looking for a byte that is not zero. */
const STEP = 1 << 20;
/** One read for paddings that lie close together, such as those between small tensors. */
const BATCH = { maxGap: 64 << 10, maxBytes: STEP } as const;
/** Runs that are listed; more are told by their number. */
const MAX_LISTED = 20;

/**
 * Runs of a model's files that belong to nothing and are not all zeros: gaps, padding, and what a tensor has stored after
 * its last element. A writer has no place for them, so that a conversion loses them. Of remote files only what lies at
 * their end is read, and gaps that no alignment explains: every padding may cost a request.
 */
export async function unclaimedBytes(opened: Opened, signal?: AbortSignal): Promise<readonly Loss[]> {
  const { container } = opened;
  if (container.kind !== "model") return [];
  const idle = idleRuns([...mapLayout(opened), ...slackOf(container)], container.parts);
  const found: Loss[] = [];
  for (const [part, file] of container.parts.entries()) {
    for (const { name, offset, byteLength } of await filledRuns(file, idle[part] ?? [], signal)) {
      const where = container.parts.length > 1 ? ` of ${file.label}` : "";
      const at = { source: file.label, offset, byteLength };
      found.push({ name: `${byteLength} bytes from ${offset}${where}`, reason: REASONS[name] ?? NOTHING, at });
    }
  }
  const more = found.length - MAX_LISTED;
  const [next] = found.slice(MAX_LISTED);
  if (next?.at === undefined) return found;
  return [...found.slice(0, MAX_LISTED), { name: `${more} more runs`, reason: NOTHING, at: next.at }];
}

/** The runs of each part that belong to nothing; looks at every row once, however many parts there are. */
export function idleRuns(rows: readonly LayoutRow[], parts: readonly Part[]): readonly (readonly LayoutRow[])[] {
  const idle: LayoutRow[][] = parts.map(() => []);
  for (const row of rows) {
    const file = parts[row.part];
    if (file === undefined || file.layout === "unplaced" || row.byteLength === 0) continue;
    if (isIdle(row, file)) idle[row.part]?.push(row);
  }
  return idle;
}

const NOTHING = "nothing in the file refers to them";
const SLACK = "slack";
const REASONS: Readonly<Record<string, string>> = {
  padding: "padding that is not zero",
  [SLACK]: "they are stored with a tensor, after its last element",
};

/** SafeTensors fills its header with spaces, which are JSON. */
const SPACES = "header padding";

function isIdle({ kind, name, offset, byteLength }: LayoutRow, { source }: Part): boolean {
  if (kind === "gap") return true;
  const isLast = offset + byteLength === source.byteLength;
  return kind === "padding" && name !== SPACES && (source.descriptor !== undefined || isLast);
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

/** A run that is too long to be read at once. */
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
