import { fileURLToPath } from "node:url";
import type { Container } from "../../model/archive.ts";
import type { Model } from "../../model/model.ts";
import { type Input, type OpenInputOptions, open as openPortable, requireModel } from "../../open.ts";
import type { Engine } from "../../primitives/engine.ts";
import { nodeEngine } from "./engine.ts";
import { openTarget } from "./open-target.ts";

export interface NodeOpenOptions extends OpenInputOptions {
  readonly engine?: Engine | undefined;
}

/** Opens a path, a directory, a URL, `ARCHIVE::inner/path`, a Blob, bytes or a Source. Close the result when done. */
export async function open(input: Input, options: NodeOpenOptions = {}): Promise<Container> {
  const engine = options.engine ?? (await nodeEngine());
  if (typeof input !== "string" && !(input instanceof URL)) return openPortable(input, { ...options, engine });
  const { limits, signal, http, password } = options;
  const text = input instanceof URL && input.protocol === "file:" ? fileURLToPath(input) : String(input);
  const { container } = await openTarget(text, { engine, limits, signal, http, password });
  return container;
}

/** Like `open`, for callers that want tensors: an archive is refused. */
export async function openModel(input: Input, options: NodeOpenOptions = {}): Promise<Model> {
  return requireModel(await open(input, options));
}
