import { UsageError } from "../../base/errors.ts";
import type { Output } from "../../bytes/sink.ts";
import type { FormatWriter, WriteContext, WritePlan } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import { checkWritten } from "../../model/pieces.ts";
import { aero } from "./index.ts";
import { type AeroImage, type AeroPlan, planAero } from "./plan.ts";
import { writeCarried } from "./write/carried.ts";
import { writeControl } from "./write/control.ts";
import { aeroRestamp } from "./write/restamp.ts";
import { checkSeekable, type SeekableSink, type WrittenDigests, writeShards } from "./write/shards.ts";

/**
 * Writes what `planAero` decided: the weights first, hashed on the way, then the carried chunks, then metadata and
 * tables. The file header comes last, so that no file can be opened before it is complete.
 */
export async function writeAero(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  // The plan is ours: operations hand back what `plan` gave them.
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

/** Fills a sink with one file and returns the digests; neither checks nor commits. */
export async function writeImage(image: AeroImage, sink: SeekableSink, context: WriteContext): Promise<WrittenDigests> {
  const { chunks, fileBytes } = image.layout;
  sink.reserve(chunks.find(({ role }) => role === "weights" || role === "carried")?.offset ?? fileBytes);
  const digests = await writeShards(image, sink, context);
  await writeCarried(image, sink, context);
  if (sink.position !== fileBytes) throw new Error(`planned ${fileBytes} bytes, wrote ${sink.position}`);
  await writeControl(image, digests, sink, context);
  return digests;
}

export const writer: FormatWriter = {
  format: aero,
  options: ["align", "maxShardBytes", "uuid", "pageHashes", "tensorHashes", "controlHash"],
  naming: { model: "model_name", architecture: "architecture" },
  decodeValue: decodeJsonNumber,
  restamp: aeroRestamp,
  plan: planAero,
  write: (plan, output, context) => writeAero(ownPlan(plan), output, context),
};

function ownPlan(plan: WritePlan): AeroPlan {
  if ("image" in plan) return plan as AeroPlan;
  throw new UsageError("usage/aero.container", "Cannot write AERO from another format's plan", { source: "plan" });
}
