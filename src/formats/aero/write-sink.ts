import { UnsupportedError } from "../../base/errors.ts";
import type { Sink } from "../../bytes/sink.ts";

/** A Sink that can go back, which AERO needs: digests of the weights stand before them. */
export type SeekableSink = Sink & Required<Pick<Sink, "reserve" | "fill">>;

/** Refuses a Sink that cannot. */
export function checkSeekable(sink: Sink): SeekableSink {
  if (sink.reserve !== undefined && sink.fill !== undefined) return sink as SeekableSink;
  const message = "Cannot write AERO to an output that cannot go back: digests of the weights stand before them";
  throw new UnsupportedError("unsupported/aero.sequential-output", message, { source: sink.label });
}
