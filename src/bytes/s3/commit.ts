import { isTareError, LimitError, SourceError, type TareError, UsageError } from "../../base/errors.ts";
import type { S3Address } from "./address.ts";
import type { S3Client, S3Condition, S3Outcome } from "./client.ts";
import { s3Error } from "./errors.ts";

/** "refuse" never touches an existing object; "replace" swaps the one that was there at the start. */
export type S3Overwrite = "refuse" | "replace";

export interface S3CommitOptions {
  readonly condition: S3Condition;
  readonly writeId: string;
  /** Sends the write, with a condition that the store may turn out not to know. */
  readonly send: (condition: S3Condition) => Promise<S3Outcome>;
  /** Hears what the user should know. */
  readonly onNote?: ((text: string) => void) | undefined;
}

/** What must hold when the object is published; refuses at once what is there already. */
export async function chooseCondition(
  client: S3Client,
  address: S3Address,
  options: { readonly overwrite: S3Overwrite; readonly signal?: AbortSignal | undefined },
): Promise<S3Condition> {
  const { overwrite, signal } = options;
  let existing: Awaited<ReturnType<S3Client["head"]>>;
  try {
    existing = await client.head(address, { signal });
  } catch (error) {
    // A key that may write but not look: the store still judges "absent", and "replace" can promise nothing.
    if (!isTareError(error) || error.code !== "source/s3.forbidden") throw error;
    return { kind: overwrite === "refuse" ? "absent" : "none" };
  }
  if (existing === undefined) return { kind: "absent" };
  if (overwrite === "refuse") throw existsError(address);
  return { kind: "unchanged", etag: existing.etag };
}

/**
 * Publishes an object under a condition, so that of two writers exactly one wins. A refusal that comes from our own
 * write, whose reply was lost, is told apart by the id that it left. Resolves with the ETag.
 */
export async function commitObject(client: S3Client, address: S3Address, options: S3CommitOptions): Promise<string> {
  const { condition, writeId, send } = options;
  let outcome = await send(condition);
  if (outcome.kind === "conditions-unsupported" && condition.kind !== "none") {
    options.onNote?.(
      `"${address.label}": the store knows no conditional writes; whether the object changed was checked just before instead`,
    );
    await checkByHand(client, address, condition);
    outcome = await send({ kind: "none" });
  }
  if (outcome.kind === "written") return outcome.etag;
  const found = await client.head(address).catch(() => undefined);
  if (found?.writeId === writeId) return found.etag;
  if (outcome.kind !== "refused") throw s3Error(outcome.refusal, address.label, "Cannot write");
  throw condition.kind === "absent" && found !== undefined ? existsError(address) : changedError(address);
}

async function checkByHand(client: S3Client, address: S3Address, condition: S3Condition): Promise<void> {
  const found = await client.head(address);
  if (condition.kind === "absent" && found !== undefined) throw existsError(address);
  if (condition.kind === "unchanged" && found?.etag !== condition.etag) throw changedError(address);
}

function existsError({ label }: S3Address): UsageError {
  return new UsageError(
    "usage/exists",
    `Cannot write "${label}": it exists already`,
    { source: label },
    { hint: "Choose another name, or pass --force" },
  );
}

function changedError({ label }: S3Address): TareError {
  return new SourceError(
    "source/s3.changed",
    `Cannot write "${label}": somebody else wrote it meanwhile`,
    { source: label },
    { hint: "Look at what is there now, then run the command again" },
  );
}

/** An id that no other write has. */
export function newWriteId(): string {
  return crypto.randomUUID();
}

/** S3's own limits: parts of one upload, bytes of a part but the last, bytes of an object (5 TiB). */
export const MAX_PARTS = 10_000;
export const LEAST_PART_BYTES = 5 << 20;
const MAX_OBJECT_BYTES = 5 * 2 ** 40;

/** 16 MiB: large enough that a request costs little beside its bytes, small enough to hold several. */
export const PART_BYTES = 16 << 20;
/** After so many parts of one length the next ones are twice as long: ten doublings reach 5 TiB within 10,000. */
const PARTS_OF_A_LENGTH = 1000;

/** A part of an upload whose length is not known yet. */
export interface PartPlace {
  /** From 1. */
  readonly number: number;
  readonly offset: number;
  /** Full length; the last part of an object is shorter. */
  readonly byteLength: number;
}

/** The part that holds the byte at `offset`, in an upload that may grow to any length that S3 takes. */
export function partAt(offset: number, partBytes: number, label: string): PartPlace {
  if (offset >= MAX_OBJECT_BYTES) throw objectError(label);
  let start = 0;
  let byteLength = partBytes;
  let number = 1;
  for (;;) {
    const end = start + byteLength * PARTS_OF_A_LENGTH;
    if (offset < end) {
      const index = Math.floor((offset - start) / byteLength);
      if (number + index > MAX_PARTS) throw objectError(label);
      return { number: number + index, offset: start + index * byteLength, byteLength };
    }
    start = end;
    byteLength *= 2;
    number += PARTS_OF_A_LENGTH;
  }
}

/** One length for all parts of an object whose length is known: as wanted, or whole MiB where that gives too many. */
export function planPartBytes(byteLength: number, wanted: number, label: string): number {
  if (byteLength > MAX_OBJECT_BYTES) throw objectError(label);
  if (byteLength <= wanted * MAX_PARTS) return wanted;
  const mebibyte = 1 << 20;
  return Math.ceil(byteLength / MAX_PARTS / mebibyte) * mebibyte;
}

function objectError(label: string): LimitError {
  const message = `Cannot write "${label}": an object must have at most 5 TiB in ${MAX_PARTS} parts`;
  return new LimitError("limit/s3.object", message, { source: label }, { hint: "Use --max-shard-size" });
}
