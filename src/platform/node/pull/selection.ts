import { join } from "node:path";
import type { OpenedInput } from "../../../api/inputs.ts";
import type { OneOrMany, Size } from "../../../api/options.ts";
import { listOf, sizeIn } from "../../../api/options.ts";
import type { OutputRequest } from "../../../api/outputs.ts";
import { startProgress } from "../../../api/progress.ts";
import { readersOf } from "../../../formats/registry.ts";
import { originFormats, prepareConversion, requireWriter, writeConversion } from "../../../operations/convert.ts";
import type { PulledFile } from "../../../operations/pull/file-job.ts";
import { slowOutput, TokenBucket } from "../../../operations/pull/rate.ts";
import { nameAfter } from "../../../operations/reading/file-names.ts";
import { checkFilePlace } from "../destinations.ts";
import { directoryOutput } from "../files/directory.ts";
import { checkInputsKept } from "../files/output-place.ts";
import type { NodeHost } from "../host.ts";

/** What a pull gave, however it was made. */
export interface Pulled {
  readonly format: string | undefined;
  readonly files: readonly PulledFile[];
  readonly requests: number;
}

/** Which tensors are wanted, by the options of `pull`. */
export interface SelectionOptions {
  readonly include?: OneOrMany<string> | undefined;
  readonly limitRate?: Size | undefined;
}

/**
 * Writes the matching tensors as a model of the same format. This is a conversion of the remote model: it reads only
 * the ranges it needs and checks them like every read.
 */
export async function pullSelection(
  host: NodeHost,
  url: string,
  directory: string,
  request: SelectionOptions & OutputRequest,
): Promise<Pulled> {
  const opened = await host.openText(url, request);
  try {
    return await writeSelection(host, opened, directory, request);
  } finally {
    await opened.close();
  }
}

async function writeSelection(
  host: NodeHost,
  opened: OpenedInput,
  directory: string,
  { engine, include, limitRate, force, dryRun, signal, onProgress }: SelectionOptions & OutputRequest,
): Promise<Pulled> {
  const globs = listOf(include) ?? [];
  const name = nameAfter(opened.label, opened.format);
  const formats = await readersOf(originFormats(opened));
  const writer = await requireWriter(opened.format);
  const conversion = await prepareConversion(opened, writer, { name, include: globs, formats, signal });
  const overwrite = force === true ? "replace" : "refuse";
  for (const file of conversion.plan.files) {
    await checkFilePlace(join(directory, file.name), host.inputs, { overwrite, links: "replace" });
  }
  if (dryRun !== true) {
    const progress = startProgress({ label: "pulling", total: conversion.dataBytes }, onProgress);
    const check = (path: string): Promise<void> => checkInputsKept(path, host.inputs, { inputs: "rewritten" });
    const output = directoryOutput(directory, name, { overwrite, links: "replace", check });
    const rate = sizeIn(limitRate);
    await writeConversion(conversion, rate === undefined ? output : slowOutput(output, new TokenBucket(rate), signal), {
      engine,
      signal,
      onProgress: (byteLength) => progress.add(byteLength),
    });
    progress.end();
  }
  const verified = verificationOf(opened, conversion.content.tensors);
  const files = conversion.plan.files.map(({ name: file, byteLength }) => {
    return { path: join(directory, file), byteLength, fetchedBytes: byteLength, resumedBytes: 0, verified };
  });
  return { format: opened.format.id, files, requests: opened.cost.requests };
}

/** The weakest check that the tensors' bytes passed. */
function verificationOf(
  { container }: OpenedInput,
  tensors: readonly { readonly name: string }[],
): PulledFile["verified"] {
  if (container.kind !== "model" || container.verificationOf === undefined) return "none";
  const kinds = new Set(tensors.map(({ name }) => container.verificationOf?.(container.tensor(name))));
  if (kinds.has("unverified") || kinds.has(undefined)) return "none";
  return kinds.has("tensor") ? "chunks" : "pages";
}
