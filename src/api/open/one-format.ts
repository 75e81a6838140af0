import type { Format } from "../../model/format.ts";
import type { Model } from "../../model/model.ts";
import type { Engine } from "../../primitives/engine.ts";
import { addressHost } from "../addresses.ts";
import { requestOf } from "../host.ts";
import { type Input, type OpenedInput, openInput } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions } from "../options.ts";
import { modelOf } from "./index.ts";

/** `open` of "tare/formats/<id>". Its host knows that format alone, so a bundle holds no other. */

/** Options of opening one format. */
export type OpenOneOptions = Omit<CommonOptions, "formats">;

const { formats: _formats, ...RULES } = COMMON_RULES;

/** Opens models of one format. */
export function modelOpener(
  format: Format,
  engine: () => Engine,
): (input: Input, options?: OpenOneOptions) => Promise<Model> {
  return async (input, options = {}) => modelOf(await openOne(format, engine, { input, options }));
}

/** Opens an input with one format and no other. */
export async function openOne(
  format: Format,
  engine: () => Engine,
  { input, options }: { readonly input: Input; readonly options: OpenOneOptions },
): Promise<OpenedInput> {
  const host = addressHost({ formats: [format], engine });
  const request = await requestOf<CommonOptions>(host, "open", options, RULES);
  const opened = await openInput(host, input, request);
  for (const { message } of opened.notes) request.onNote?.(message);
  return opened;
}
