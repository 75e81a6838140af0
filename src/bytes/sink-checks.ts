import { UsageError } from "../base/errors.ts";
import type { Sink } from "./sink.ts";

/** Refuses a use of a Sink after commit or abort. */
export function doneError(label: string): UsageError {
  return new UsageError("usage/sink.done", "Cannot write: the sink is committed or aborted already", { source: label });
}

/** Refuses to reserve anything but a whole number of bytes. */
export function checkReserve(byteLength: number, label: string): void {
  if (Number.isSafeInteger(byteLength) && byteLength >= 0) return;
  const message = `Cannot reserve ${byteLength} bytes: must be a whole number >= 0`;
  throw new UsageError("usage/sink.range", message, { source: label });
}

/** Refuses to fill bytes that were neither reserved nor appended. */
export function checkFill(offset: number, byteLength: number, sink: Pick<Sink, "label" | "position">): void {
  const fine = Number.isSafeInteger(offset) && offset >= 0 && offset <= sink.position - byteLength;
  if (fine) return;
  const message = `Cannot fill ${byteLength} bytes at ${offset}: must end at or before ${sink.position}`;
  throw new UsageError("usage/sink.range", message, { source: sink.label });
}
