import { UsageError } from "../../base/errors.ts";
import { formatForName } from "../../formats/registry.ts";
import { nameAfter } from "../../operations/reading/file-names.ts";
import { requestOf, type VerbHost } from "../host.ts";

import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";

import { requireOption, type Size, sizeIn, switchRule, WRITE_RULES, type WriteOptions } from "../options.ts";
import { destinationOf, type Output } from "../outputs.ts";
import { checkNamed, lossy, runConversion } from "./conversion.ts";
import type { ConvertResult } from "./results.ts";
import { roomRule } from "./writer-options.ts";

export interface ShardOptions extends WriteOptions {
  /** Most tensor data that a file may hold. A tensor is never cut, so a file may be longer. */
  readonly maxSize: Size;
  /** Goes on although something cannot be carried; the result lists it. */
  readonly allowLossy?: boolean | undefined;
}

const SHARD_RULES = { ...WRITE_RULES, maxSize: roomRule, allowLossy: switchRule };

export async function shard(
  host: VerbHost,
  input: Input,
  output: Output,
  options: ShardOptions,
): Promise<ConvertResult> {
  const request = await requestOf(host, "shard", options ?? {}, SHARD_RULES);
  requireOption("shard", "maxSize", request.maxSize, "a size of at least 1 byte");
  const place = await destinationOf(host, output, request, { names: "folder" });
  return withInput(host, input, request, async (opened) => {
    const target = opened.format;
    const maxShardBytes = sizeIn(request.maxSize);
    const conversion = { name: nameAfter(opened.label, target), maxShardBytes, ...lossy(request.allowLossy) };
    return runConversion(host, request, { opened, target, place, options: conversion });
  });
}

export interface MergeOptions extends WriteOptions {
  /** Goes on although something cannot be carried; the result lists it. */
  readonly allowLossy?: boolean | undefined;
}

/** "model-00002-of-00005.safetensors" */
const NUMBERED = /-(\d{5})-of-(\d{5})\.[a-z]+$/i;

/** A SafeTensors shard, and a later GGUF one, is a model of its own: merged alone, it would pass for the whole. */
function checkWhole({ container, label }: OpenedInput): void {
  const [, , total = "1"] = NUMBERED.exec(label) ?? [];
  if (container.parts.length > 1 || Number(total) <= 1) return;
  const message = `Cannot merge "${label}": it is one of ${Number(total)} files, and does not lead to the others`;
  const hint = "Name the index, the first of the numbered files (GGUF), or the folder that holds them";
  throw new UsageError("usage/merge.part", message, { source: label }, { hint });
}

const MERGE_RULES = { ...WRITE_RULES, allowLossy: switchRule };

export async function merge(
  host: VerbHost,
  input: Input,
  output: Output,
  options: MergeOptions = {},
): Promise<ConvertResult> {
  const request = await requestOf(host, "merge", options, MERGE_RULES);
  const place = await destinationOf(host, output, request);
  await checkNamed(place);
  return withInput(host, input, request, async (opened) => {
    const { format: target } = opened;
    checkWhole(opened);
    const named = formatForName(place.fileName ?? "");
    if (named !== undefined && named.id !== target.id) {
      const message = `Cannot merge ${target.name} shards into a ${named.name} file`;
      const hint = `Merge to *${target.extensions[0]}, or convert it`;
      throw new UsageError("usage/output-format", message, { source: place.label }, { hint });
    }
    const name = place.fileName ?? nameAfter(opened.label, target);
    const conversion = { name, ...lossy(request.allowLossy) };
    return runConversion(host, request, { opened, target, place, options: conversion });
  });
}
