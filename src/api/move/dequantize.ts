import { nameAfter } from "../../operations/reading/file-names.ts";
import { requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import {
  listOf,
  type OneOrMany,
  switchRule,
  textRule,
  textsRule,
  typeRule,
  WRITE_RULES,
  type WriteOptions,
} from "../options.ts";
import { destinationOf, type Output } from "../outputs.ts";
import { checkNamed, chooseFormat, lossy, runConversion } from "./conversion.ts";
import { dequantizing, FLOAT_TYPES, type FloatType } from "./quantization.ts";
import type { ConvertResult } from "./results.ts";

export interface DequantizeOptions extends WriteOptions {
  /** The float type to write: f32 if absent. */
  readonly type?: FloatType | undefined;
  /** Tensors that stay as they are. */
  readonly keep?: OneOrMany<string> | undefined;
  /** Goes on although something cannot be carried; the result lists it. */
  readonly allowLossy?: boolean | undefined;
  /** The output's format, if its name does not say it. */
  readonly to?: string | undefined;
}

const RULES = {
  ...WRITE_RULES,
  type: typeRule(...FLOAT_TYPES),
  keep: textsRule,
  allowLossy: switchRule,
  to: textRule,
};

export async function dequantize(
  host: VerbHost,
  input: Input,
  output: Output,
  options: DequantizeOptions = {},
): Promise<ConvertResult> {
  const request = await requestOf(host, "dequantize", options, RULES);
  const place = await destinationOf(host, output, request);
  const target = chooseFormat(options.to, place);
  await checkNamed(place);
  return withInput(host, input, request, async (opened) => {
    const { type = "f32", keep, allowLossy } = request;
    const name = place.fileName ?? nameAfter(opened.label, target);
    const kept = listOf(keep);
    const conversion = { name, transform: dequantizing(type, kept), keep: kept, ...lossy(allowLossy) };
    return runConversion(host, request, { opened, target, place, options: conversion });
  });
}
