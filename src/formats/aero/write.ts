import { UnsupportedError, UsageError } from "../../base/errors.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { FormatWriter, WriteContext, WritePlan } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import { checkWritten } from "../../model/pieces.ts";
import { aero } from "./index.ts";
import { type AeroImage, type AeroPlan, planAero } from "./plan.ts";
import { writeControl } from "./write/control.ts";
import { aeroRestamp } from "./write/restamp.ts";
import { type WrittenDigests, writeShards } from "./write/shards.ts";

/**
 * Writes what `planAero` decided: weights first, hashed as they pass; then metadata and the tables; the file header
 * last, so that nothing that can be opened exists before all of it does.
 */
export async function writeAero(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  // The plan is our own: operations hand back what `plan` gave them.
  const { image, primary } = plan as AeroPlan;
  const sink = await output.create(primary);
  try {
    await writeImage(image, checkSeekable(sink), context);
    await checkWritten(new Map([[primary, sink]]), { name: primary, label: output.label }, context);
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** Fills a sink with one file and tells what it hashed; neither checks nor commits. */
export async function writeImage(image: AeroImage, sink: SeekableSink, context: WriteContext): Promise<WrittenDigests> {
  const { chunks, fileBytes } = image.layout;
  sink.reserve(chunks.find(({ role }) => role === "weights")?.offset ?? fileBytes);
  const digests = await writeShards(image, sink, context);
  if (sink.position !== fileBytes) throw new Error(`planned ${fileBytes} bytes, wrote ${sink.position}`);
  await writeControl(image, digests, sink, context);
  return digests;
}

export const writer: FormatWriter = {
  format: aero,
  options: ["align", "maxShardBytes", "uuid", "pageHashes", "tensorHashes", "controlHash"],
  decodeValue: decodeJsonNumber,
  restamp: aeroRestamp,
  plan: planAero,
  write: (plan, output, context) => writeAero(ownPlan(plan), output, context),
};

function ownPlan(plan: WritePlan): AeroPlan {
  if ("image" in plan) return plan as AeroPlan;
  throw new UsageError("usage/aero.container", "Cannot write AERO from another format's plan", { source: "plan" });
}

/** A Sink that can go back, which AERO needs: digests of the weights stand before them. */
export type SeekableSink = Sink & Required<Pick<Sink, "reserve" | "fill">>;

/** Refuses a Sink that cannot. */
export function checkSeekable(sink: Sink): SeekableSink {
  if (sink.reserve !== undefined && sink.fill !== undefined) return sink as SeekableSink;
  const message = "Cannot write AERO to an output that cannot go back: digests of the weights stand before them";
  throw new UnsupportedError("unsupported/aero.sequential-output", message, { source: sink.label });
}
