import { UsageError } from "../../base/errors.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import { CrcSink } from "../../model/crc-sink.ts";
import type { FormatWriter, WriteContext, WritePlan } from "../../model/format.ts";
import { checkWritten, writePieces } from "../../model/pieces.ts";
import { crc32Combine } from "../../primitives/digest/crc32-combine.ts";
import { embd } from "./index.ts";
import { fileFooter, MAGIC_END } from "./layout.ts";
import { type EmbdImage, type EmbdPlan, planEmbd } from "./plan.ts";
import { prepareEmbd } from "./prepare.ts";
import { embdRestamp } from "./restamp.ts";
import { decodeTokens } from "./token-list.ts";

/** Writes what `planEmbd` decided, from beginning to end; nothing is visible before it is checked. */
export async function writeEmbd(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  const { image, primary } = ownPlan(plan);
  const sink = await output.create(primary);
  try {
    await fillSink(image, sink, context);
    await checkWritten(new Map([[primary, sink]]), { name: primary, label: output.label }, context);
    await sink.commit();
  } catch (error) {
    await sink.abort().catch(() => undefined); // what went wrong first is what matters
    throw error;
  }
}

/** Both checksums come out of one pass: the file's is joined from the front's, the data's and the gap's. */
async function fillSink({ front, data, footer }: EmbdImage, sink: Sink, context: WriteContext): Promise<void> {
  const { engine } = context;
  await sink.append(front.bytes);
  const summing = new CrcSink(sink, engine);
  await writePieces(data, summing, context);
  const gap = new Uint8Array(front.gapBytes);
  if (gap.byteLength > 0) await sink.append(gap);
  if (footer === "none") return;
  const dataChecksum = await summing.crc();
  const upToData = crc32Combine(await engine.crc32(front.bytes), dataChecksum, front.dataSize);
  const fileChecksum = crc32Combine(upToData, await engine.crc32(gap), gap.byteLength);
  const sums = footer === "sums" ? { dataChecksum, fileChecksum } : { dataChecksum: 0, fileChecksum: 0 };
  await sink.append(fileFooter.encode({ ...sums, magicEnd: MAGIC_END }));
}

function ownPlan(plan: WritePlan): EmbdPlan {
  if ("image" in plan && plan.files.length === 1) return plan as EmbdPlan;
  throw new UsageError("usage/embd.container", "Cannot write EMBD from another format's plan", { source: "plan" });
}

export const writer: FormatWriter = {
  format: embd,
  options: ["align", "int8", "vocabulary"],
  decodeValue: decodeTokens,
  restamp: embdRestamp,
  prepare: prepareEmbd,
  plan: planEmbd,
  write: writeEmbd,
};
