import type { Bytes } from "../../base/bytes.ts";
import { LimitError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { allocateFor } from "../../bytes/layers/base.ts";
import type { Source } from "../../bytes/source.ts";
import type { Archive } from "../../model/archive.ts";
import type { Opened } from "../../model/format.ts";
import { countEntries } from "../../operations/reading/listing.ts";
import type { Request, VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import { type CommonOptions, HELD_BYTES, sizeIn } from "../options.ts";
import { appendAll, type Destination, writeOne } from "../outputs.ts";
import { startProgress, withProgress } from "../progress.ts";
import type { VerifyResult } from "../trust/verify.ts";
import type { ReadEntryOptions } from "./options.ts";
import type { VaultCatResult, VaultDiffResult, VaultInfoResult } from "./results.ts";

/** The bytes of one file of an archive, in memory. */
export async function readFile(source: Source, path: string, options: ReadEntryOptions): Promise<Bytes> {
  const { byteLength, label } = source;
  const maxBytes = sizeIn(options.maxBytes) ?? HELD_BYTES;
  if (byteLength > maxBytes) {
    const message = `Cannot read "${printable(path)}": it must be at most ${maxBytes} bytes, found ${byteLength}`;
    const hint = "Read it by ranges with source(), or pass the option maxBytes";
    throw new LimitError("limit/memory", message, { source: label }, { hint });
  }
  return source.read(0, byteLength, { into: allocateFor(byteLength, label), signal: options.signal });
}

export interface EntryCall {
  readonly place: Destination;
  readonly request: Request;
}

/** Writes the bytes of one file of an archive. */
export async function catEntry(archive: Archive, path: string, { place, request }: EntryCall): Promise<VaultCatResult> {
  const entry = archive.entry(path);
  // A file that cannot be read is refused before any output is made.
  const source = entry.source();
  const file = place.fileName ?? entry.path.slice(entry.path.lastIndexOf("/") + 1);
  await place.checkAbsent([file]);
  const { signal, onProgress } = request;
  if (request.dryRun !== true) {
    await withProgress({ label: "reading", total: source.byteLength }, onProgress, (progress) =>
      writeOne(place, file, (sink) => appendAll(source, sink, { signal, onBytes: progress.add })),
    );
  }
  const proof = archive.authentication === undefined ? {} : ({ verification: "authenticated" } as const);
  return { name: entry.path, byteLength: entry.size, ...proof, output: place.pathOf(file) };
}

/** How a vault is made, and what it saves. */
export function infoOf(archive: Archive, facts: Archive["facts"]): VaultInfoResult {
  const { format, version, warnings, parts, storage } = archive;
  const byteLength = parts.reduce((sum, part) => sum + part.byteLength, 0);
  const named = { facts: Object.fromEntries(facts), warnings };
  return { format, version: version ?? null, byteLength, ...countEntries(archive), ...storage, ...named };
}

/** Compares a vault with another one, which is opened and closed. */
export async function diffWith(
  host: VerbHost,
  archive: Archive,
  other: Input,
  request: Request<CommonOptions>,
): Promise<VaultDiffResult> {
  const { diffArchives } = await import("../../operations/diff.ts");
  return withInput(host, other, request, async (opened) => {
    const total = archive.entries.reduce((sum, { size }) => sum + size, 0);
    const progress = startProgress({ label: "comparing", total }, request.onProgress);
    const { signal } = request;
    const report = await diffArchives(archive, requireArchive(opened), { signal, onProgress: progress.add });
    progress.end();
    return report;
  });
}

/** Proves every stored block of an opened vault. */
export async function scrubOpened(opened: Opened, request: Request<CommonOptions>): Promise<VerifyResult> {
  const { verify } = await import("../../operations/verify.ts");
  const { container } = opened;
  const total = container.kind === "archive" ? container.storage?.storedBytes : undefined;
  const progress = startProgress({ label: "scrubbing", total }, request.onProgress);
  const { engine, limits, signal } = request;
  const report = await verify(opened, { level: "full", engine, limits, signal, onProgress: progress.add });
  progress.end();
  return report;
}

/** The container as a vault; a model is refused. */
export function requireArchive({
  container,
  label,
  format,
}: Pick<OpenedInput, "container" | "label" | "format">): Archive {
  if (container.kind === "archive") return container;
  const message = `Cannot look into "${printable(label)}": it must be a vault, found a ${format.name} model`;
  const hint = "It has tensors, and no files: list, inspect and cat look at models, and openModel opens them";
  throw new UsageError("usage/not-a-vault", message, { source: label }, { hint });
}
