import { isTareError, SourceError, type TareError, UsageError } from "../base/errors.ts";
import type { S3Address } from "./s3-address.ts";
import type { S3Client, S3Condition, S3Outcome } from "./s3-client.ts";
import { s3Error } from "./s3-errors.ts";

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
