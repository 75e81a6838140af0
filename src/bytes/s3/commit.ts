import { isTareError, LimitError, SourceError, type TareError } from "../../base/errors.ts";
import { existsError } from "../sink.ts";
import type { S3Address } from "./address.ts";
import type { S3Client, S3Condition, S3Outcome } from "./client.ts";
import { s3Error } from "./errors.ts";

/** "refuse" never touches an existing object; "replace" swaps the one that was there at the start. */
export type S3Overwrite = "refuse" | "replace";

export interface S3CommitOptions {
  readonly condition: S3Condition;
  readonly writeId: string;
  /** Ids of earlier writes of the same bytes, which may reach the store later than their process lived. */
  readonly earlierIds?: readonly string[] | undefined;
  /** Sends the write with a condition, which the store may not support. */
  readonly send: (condition: S3Condition) => Promise<S3Outcome>;
  /** Gets notes for the user. */
  readonly onNote?: ((text: string) => void) | undefined;
}

/** The condition for publishing the object; refuses an existing object at once. */
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
    // A key that may write but not read: the store still checks "absent", but "replace" cannot promise anything.
    if (!isTareError(error) || error.code !== "source/s3.forbidden") throw error;
    return { kind: overwrite === "refuse" ? "absent" : "none" };
  }
  if (existing === undefined) return { kind: "absent" };
  if (overwrite === "refuse") throw existsError(address.label);
  return { kind: "unchanged", etag: existing.etag };
}

/**
 * Publishes an object under a condition, so that exactly one of two writers wins. If a refusal comes from our own
 * earlier write, whose reply was lost, or of an earlier run, the id in the object shows that. Resolves with the ETag.
 */
export async function commitObject(client: S3Client, address: S3Address, options: S3CommitOptions): Promise<string> {
  const { condition, writeId, earlierIds = [], send } = options;
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
  if (found?.writeId !== undefined && [writeId, ...earlierIds].includes(found.writeId)) return found.etag;
  if (outcome.kind !== "refused") throw s3Error(outcome.refusal, address.label, "Cannot write");
  throw condition.kind === "absent" && found !== undefined ? existsError(address.label) : changedError(address);
}

async function checkByHand(client: S3Client, address: S3Address, condition: S3Condition): Promise<void> {
  const found = await client.head(address);
  if (condition.kind === "absent" && found !== undefined) throw existsError(address.label);
  if (condition.kind === "unchanged" && found?.etag !== condition.etag) throw changedError(address);
}

function changedError({ label }: S3Address): TareError {
  return new SourceError(
    "source/s3.changed",
    `Cannot write "${label}": someone else wrote it meanwhile`,
    { source: label },
    { hint: "Look at what is there now, then run the command again" },
  );
}

/** An id that is unique to one write. */
export function newWriteId(): string {
  return crypto.randomUUID();
}

/** S3's own limits: parts of one upload, least bytes of every part but the last, bytes of an object (5 TiB). */
const MAX_PARTS = 10_000;
export const LEAST_PART_BYTES = 5 << 20;
const MAX_OBJECT_BYTES = 5 * 2 ** 40;

/** 16 MiB: large enough that a request costs little compared to its bytes, small enough to hold several. */
export const PART_BYTES = 16 << 20;
/** After this many parts of one length, the length doubles: ten doublings reach 5 TiB within 10,000. */
const PARTS_OF_A_LENGTH = 1000;

/** Parts that are sent at the same time, unless the caller chooses another number. */
export const PARTS_AT_ONCE = 4;

/** A part of an upload of unknown length. */
export interface PartPlace {
  /** From 1. */
  readonly number: number;
  readonly offset: number;
  /** Full length; the last part of an object is shorter. */
  readonly byteLength: number;
}

/** The part that holds the byte at `offset`, in an upload that may grow to any length that S3 allows. */
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

/** One length for all parts of an object of known length: the wanted one, or whole MiB if that gives too many parts. */
export function planPartBytes(byteLength: number, wanted: number, label: string): number {
  if (byteLength > MAX_OBJECT_BYTES) throw objectError(label);
  if (byteLength <= wanted * MAX_PARTS) return wanted;
  const mebibyte = 1 << 20;
  return Math.ceil(byteLength / MAX_PARTS / mebibyte) * mebibyte;
}

function objectError(label: string): LimitError {
  const message = `Cannot write "${label}": an object must have at most 5 TiB in ${MAX_PARTS} parts`;
  return new LimitError("limit/s3.object", message, { source: label }, { hint: "Pass the option maxShardSize" });
}
