import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../src/base/errors.ts";
import type { Resolver } from "../src/bytes/resolver.ts";
import { openS3, parseS3Address, type S3Address, s3Output, s3Resolver } from "../src/bytes/s3/open.ts";
import type { Output } from "../src/bytes/sink.ts";
import type { Context } from "./context.ts";
import { s3ClientFor } from "./s3-settings.ts";

/** An object that the user named; a set puts its other objects beside it. */
export async function openS3Output(context: Context, path: string): Promise<Output> {
  return s3Output(await s3ClientFor(context), outputAddress(path), {
    overwrite: context.flags.force === true ? "replace" : "refuse",
    concurrency: context.flags.concurrency,
    onNote: (text) => context.note(`note: ${text}`),
  });
}

/** As `openS3Output`, for formats that read their files back before they get their names. */
export async function openStagedS3Output(context: Context, path: string): Promise<Output> {
  const [output, { stagedOutput }, { cacheFolder }, { makeOwnFolder }] = await Promise.all([
    openS3Output(context, path),
    import("../src/platform/node/s3-staged-output.ts"),
    import("../src/platform/node/cache-place.ts"),
    import("../src/platform/node/own-folder.ts"),
  ]);
  // The system's own folder for temporary files is often kept in memory, but nobody else can change what lies there.
  const own = await makeOwnFolder(cacheFolder(context.env));
  return stagedOutput(output, own === undefined ? tmpdir() : join(own, "uploads"));
}

/** Refuses an object that exists, before any work is done for it. Sinks check again when they commit. */
export async function checkS3Absent(context: Context, path: string): Promise<void> {
  const address = outputAddress(path);
  const existing = await (await s3ClientFor(context)).head(address, { signal: context.signal });
  if (existing === undefined) return;
  throw new UsageError(
    "usage/exists",
    `Cannot write "${address.label}": it exists already`,
    { source: address.label },
    { hint: "Choose another name, or pass --force" },
  );
}

/** What was written, to be read back once it is there: an upload cannot be read before it is complete. */
export async function writtenObjects(context: Context, path: string): Promise<Resolver> {
  const client = await s3ClientFor(context);
  return s3Resolver(outputAddress(path), (address) => openS3(client, address, { signal: context.signal }));
}

function outputAddress(path: string): S3Address {
  const address = parseS3Address(path);
  if (address.key !== "" && !address.key.endsWith("/")) return address;
  throw new UsageError("usage/s3.address", `Cannot write to "${address.label}": the key must name an object`, {
    source: address.label,
  });
}
