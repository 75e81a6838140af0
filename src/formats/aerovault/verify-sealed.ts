import type { Bytes } from "../../base/bytes.ts";
import { resolveLimits } from "../../base/limits.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { VerifyContext } from "../../model/format.ts";
import { AVEC_HEADER_BYTES, decodeAvecHeader, type ReadableBytes } from "../../model/parity/avec.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import { DATA_PARITY, extensionPayload, MANIFEST_PARITY } from "./extension-payload.ts";
import { decodeDirectory } from "./extensions.ts";
import { checkSections, readHeader } from "./header.ts";
import type { VaultHeader } from "./layout.ts";
import { AEROVAULT_LIMITS } from "./limits.ts";
import { compareWithParity } from "./manifest-parity.ts";

/**
 * What can be said about an encrypted vault without its password: whether header and directory make sense, and, where it
 * carries parity, whether manifest and blocks have the checksums that parity keeps of them: "manifests" and "shards" are
 * counted where that could be told. Throws where the vault could not be opened with the password either.
 */
export async function* verifySealed(source: Source, context: VerifyContext): AsyncGenerator<Finding> {
  const at = { source: source.label, offset: 0 };
  const limits = resolveLimits("aerovault", AEROVAULT_LIMITS, context.limits);
  const { values: header } = await readHeader(source);
  checkSections(header, source.byteLength, limits, at);
  const read = (offset: number, byteLength: number): Promise<Bytes> => source.read(offset, byteLength);
  const { extensionDirectoryOffset, extensionDirectoryLength, extensionPayloadLength } = header;
  const directory = await read(extensionDirectoryOffset, extensionDirectoryLength);
  const place = { ...at, offset: extensionDirectoryOffset };
  const rows = decodeDirectory(directory, place, { payloadLength: extensionPayloadLength, maxRows: limits.extensions });
  const payloadOf = (id: string): ReadableBytes | undefined => extensionPayload(id, { rows, header, read });
  yield* verifyManifest(source, header, payloadOf(MANIFEST_PARITY), context);
  yield* verifyData(source, header, payloadOf(DATA_PARITY), context);
}

async function* verifyManifest(
  source: Source,
  { manifestOffset: offset, manifestLength }: VaultHeader,
  payload: ReadableBytes | undefined,
  context: VerifyContext,
): AsyncGenerator<Finding> {
  if (payload === undefined) return;
  const verdict = await compareWithParity(context.engine, await source.read(offset, manifestLength), payload);
  if (verdict !== "unknown") context.count("manifests");
  if (typeof verdict !== "number") return;
  const message = "The manifest does not have the checksums that its parity keeps of it";
  const at = { source: source.label, offset: offset + verdict };
  yield { severity: "error", code: "integrity/aerovault.manifest", message, at, hint: "Run tare vault repair" };
}

/** Only where blocks lie one behind the other: where there is room between them, only the manifest knows where they are. */
async function* verifyData(
  source: Source,
  { dataOffset, dataLength }: VaultHeader,
  payload: ReadableBytes | undefined,
  { engine, signal, count, onProgress }: VerifyContext,
): AsyncGenerator<Finding> {
  if (payload === undefined || payload.byteLength < AVEC_HEADER_BYTES) return;
  const plan = decodeAvecHeader(await payload.read(0, AVEC_HEADER_BYTES));
  if (plan?.byteLength !== dataLength || plan.payloadBytes !== payload.byteLength) return;
  const reader = new ParityReader({ engine, plan, data: sliceSource(source, dataOffset, dataLength), payload });
  await reader.examine({ signal, onProgress });
  count("shards", plan.shardCount);
  count("bytes", dataLength);
  for (const { group, data } of reader.damage) {
    for (const index of data) {
      const offset = dataOffset + (group * plan.grid.dataShards + index) * plan.shardBytes;
      const message = `Blocks within ${plan.shardBytes} bytes do not have the checksum that parity keeps of them`;
      const at = { source: source.label, offset };
      yield { severity: "error", code: "integrity/aerovault.shard", message, at, hint: "Run tare vault repair" };
    }
  }
}
