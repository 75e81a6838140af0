import { nameAfter } from "../../operations/reading/file-names.ts";
import { requestOf, type VerbHost, warnOf } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import {
  listOf,
  type OneOrMany,
  requireOption,
  switchRule,
  textRule,
  textsRule,
  typeRule,
  WRITE_RULES,
  type WriteOptions,
} from "../options.ts";
import { destinationOf, type Output } from "../outputs.ts";
import { checkNamed, chooseFormat, lossy, runConversion } from "./conversion.ts";
import { QUANT_TYPES, Quantization, type QuantReport, type QuantType } from "./quantization.ts";
import type { ConvertResult } from "./results.ts";

export interface QuantizeOptions extends WriteOptions {
  /** The block type to write. */
  readonly type: QuantType;
  /** Tensors that stay as they are. */
  readonly keep?: OneOrMany<string> | undefined;
  /** Also measures what it cost each tensor. */
  readonly report?: boolean | undefined;
  /** Goes on although something else cannot be carried; the result lists it. */
  readonly allowLossy?: boolean | undefined;
  /** The output's format, if its name does not say it. */
  readonly to?: string | undefined;
}

/** What `tare quantize --json` prints; the last three with the option `report`. */
export interface QuantizeResult extends ConvertResult, Partial<QuantReport> {}

const RULES = {
  ...WRITE_RULES,
  type: typeRule(...QUANT_TYPES),
  keep: textsRule,
  report: switchRule,
  allowLossy: switchRule,
  to: textRule,
};

export async function quantize(
  host: VerbHost,
  input: Input,
  output: Output,
  options: QuantizeOptions,
): Promise<QuantizeResult> {
  const request = await requestOf(host, "quantize", options ?? {}, RULES);
  requireOption("quantize", "type", request.type, `one of ${QUANT_TYPES.join(", ")}`);
  const place = await destinationOf(host, output, request);
  const target = chooseFormat(request.to, place);
  await checkNamed(place);
  return withInput(host, input, request, async (opened) => {
    const { engine, type, keep, report, allowLossy } = request;
    const errors = report === true ? "measured" : "ignored";
    const work = new Quantization({ engine, type, keep: listOf(keep) ?? [], errors, opened });
    const name = place.fileName ?? nameAfter(opened.label, target);
    const transform = await work.transform();
    const conversion = { name, transform, keep: listOf(keep), ...lossy(allowLossy) };
    const result = await runConversion(host, request, { opened, target, place, options: conversion });
    for (const text of work.warnings()) warnOf(host, request)(text);
    return report === true ? { ...result, ...work.report() } : result;
  });
}
