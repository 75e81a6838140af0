import { printable } from "../../../base/text.ts";
import type { Finding } from "../../../model/finding.ts";
import type { VerifyContext } from "../../../model/format.ts";
import { Metadata } from "../../../model/metadata.ts";
import type { AprModel } from "../apr-model.ts";
import type { FileChecksums } from "./footer.ts";
import { FILE_FLAGS } from "./layout.ts";
import type { ShardEntry } from "./manifest.ts";
import { type ManifestDetails, strangeShard } from "./open-manifest.ts";
import { SHARD_KEY } from "./shard-key.ts";
import { readChecksums, verifySpecFile } from "./verify.ts";

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
      const [part] = shard.parts;
      if (part === undefined || context.level !== "full" || entry.crc32 === undefined) continue;
      yield* compareCrc(model, entry, i, await readChecksums(part.source, context));
      continue;
    }
    let checksums: FileChecksums | undefined;
    yield* verifySpecFile(shard, context, (found) => {
      checksums = found;
    });
    yield* compareCrc(model, entry, i, checksums);
    yield* checkFlag(shard, entry);
    yield* checkNumber(shard, entry, { index: i, count: shards.length });
  }
}

/** The CRC-32 of the bytes before the footer binds a shard to its set; older manifests have the whole file's. */
function* compareCrc(
  model: AprModel,
  entry: ShardEntry,
  i: number,
  checksums: FileChecksums | undefined,
): Generator<Finding> {
  if (checksums === undefined) return;
  const at = { source: model.parts[0]?.label ?? "", offset: 0, path: `shards[${i}].crc32` };
  if (entry.crc32 === undefined) {
    const message = `The manifest has no CRC-32 for "${printable(entry.file)}"`;
    yield { severity: "warning", code: "integrity/apr.no-shard-crc", message, at };
    return;
  }
  const strange = strangeShard(entry, i, checksums, at.source);
  if (strange !== undefined) yield strange;
  else if (entry.crc32 !== checksums.crc) {
    const message = `The CRC-32 of "${printable(entry.file)}" is the one of the whole file, which every shard of this length has`;
    const hint = "Make the set anew to have its manifest tell shards of other models";
    yield { severity: "note", code: "format/apr.shard-crc-kind", message, at, hint };
  }
}

function* checkFlag(shard: AprModel, { file }: ShardEntry): Generator<Finding> {
  const { header } = shard.details as { readonly header: { readonly flags: number } };
  if (FILE_FLAGS.has(header.flags, "SHARDED")) return;
  const message = `The shard "${printable(file)}" does not have the flag SHARDED`;
  yield { severity: "warning", code: "format/apr.flags", message, at: { source: file, offset: 8, path: "flags" } };
}

/**
 * In older manifests the CRC-32 cannot tell two shards of one length apart: it is that of a whole file, which ends with its
 * own CRC and so depends on nothing but its length. What a shard says of itself can.
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
