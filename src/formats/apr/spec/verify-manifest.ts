import { printable } from "../../../base/text.ts";
import type { Finding } from "../../../model/finding.ts";
import type { VerifyContext } from "../../../model/format.ts";
import { Metadata } from "../../../model/metadata.ts";
import type { AprModel } from "../apr-model.ts";
import { hex } from "./footer.ts";
import { FILE_FLAGS } from "./layout.ts";
import type { ShardEntry } from "./manifest.ts";
import type { ManifestDetails } from "./open-manifest.ts";
import { SHARD_KEY } from "./shard-key.ts";
import { type ScanResult, verifySpecFile } from "./verify.ts";

/** Verifies a shard that is not of the specification's layout. */
export type VerifyShard = (model: AprModel, context: VerifyContext) => AsyncIterable<Finding>;

/** Every shard as a file of its own, and against what the manifest says of it. */
export async function* verifyManifest(
  model: AprModel,
  context: VerifyContext,
  verifyShard: VerifyShard,
): AsyncGenerator<Finding> {
  const { manifest, shards } = model.details as ManifestDetails;
  context.count("shards", shards.length);
  for (const warning of model.warnings) {
    // Opening goes on where a shard holds more than the manifest says; a set that disagrees with itself is not sound.
    if (warning.code === "format/apr.unlisted-tensor") yield { ...warning, severity: "error" };
  }
  for (const [i, shard] of shards.entries()) {
    const entry = manifest.shards[i] as ShardEntry;
    if (shard.layout !== "spec") {
      yield* verifyShard(shard, context);
      continue;
    }
    let scan: ScanResult | undefined;
    yield* verifySpecFile(shard, context, (found) => {
      scan = found;
    });
    yield* compareCrc(model, entry, i, scan);
    yield* checkFlag(shard, entry);
    yield* checkNumber(shard, entry, { index: i, count: shards.length });
  }
}

/** The whole file's CRC-32 is what we write; the one of its own footer is what others may mean. */
function* compareCrc(model: AprModel, entry: ShardEntry, i: number, scan: ScanResult | undefined): Generator<Finding> {
  if (scan === undefined) return;
  const at = { source: model.parts[0]?.label ?? "", offset: 0, path: `shards[${i}].crc32` };
  if (entry.crc32 === undefined) {
    const message = `The manifest has no CRC-32 for "${printable(entry.file)}"`;
    yield { severity: "warning", code: "integrity/apr.no-shard-crc", message, at };
  } else if (entry.crc32 === scan.crc && entry.crc32 !== scan.fileCrc) {
    const message = `The CRC-32 of "${printable(entry.file)}" is the one of its footer, not of the whole file`;
    yield { severity: "note", code: "format/apr.shard-crc-kind", message, at };
  } else if (entry.crc32 !== scan.fileCrc) {
    const message = `The shard "${printable(entry.file)}" is not the one of the set: its CRC-32 must be ${hex(entry.crc32)}, found ${hex(scan.fileCrc)}`;
    yield {
      severity: "error",
      code: "integrity/apr.shard-crc",
      message,
      at,
      name: entry.file,
      hint: "Download the shard again, or the whole set where it was replaced by another version",
    };
  }
}

function* checkFlag(shard: AprModel, { file }: ShardEntry): Generator<Finding> {
  const { header } = shard.details as { readonly header: { readonly flags: number } };
  if (FILE_FLAGS.has(header.flags, "SHARDED")) return;
  const message = `The shard "${printable(file)}" does not have the flag SHARDED`;
  yield { severity: "warning", code: "format/apr.flags", message, at: { source: file, offset: 8, path: "flags" } };
}

/**
 * A CRC-32 over a whole file that ends with its own CRC depends on nothing but its length, so it cannot tell two shards
 * of one length apart. What a shard says of itself can.
 */
function* checkNumber(
  { metadata }: AprModel,
  { file }: ShardEntry,
  wanted: { readonly index: number; readonly count: number },
): Generator<Finding> {
  const value = metadata.get(SHARD_KEY);
  if (value?.type !== "map") return;
  const own = new Metadata(value.entries);
  for (const [key, number] of Object.entries(wanted)) {
    const found = own.number(key);
    if (found === undefined || found === number) continue;
    const message = `The shard "${printable(file)}" should have the ${key} ${number}, but says it is ${found}`;
    const at = { source: file, offset: 32, path: `metadata.${SHARD_KEY}.${key}` };
    yield { severity: "error", code: "format/apr.shard-number", message, at, name: file };
  }
}
