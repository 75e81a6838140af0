import { isTareError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import { openSource } from "../../open.ts";
import type { OpenedInput } from "../../operations/vault/inputs.ts";
import { tensorExtents } from "../../operations/vault/tensor-extents.ts";
import type { Engine } from "../../primitives/engine.ts";
import { changedError, hasFileChanged, openFile } from "./file-source.ts";

export interface InputOptions {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  /** "ignore" cuts models like any other file. */
  readonly tensors: "cut" | "ignore";
  readonly signal?: AbortSignal | undefined;
}

/** Opens a file that is to be stored; throws `source/changed` where it is not the one with this identity. */
export async function openVaultInput(path: string, identity: string, options: InputOptions): Promise<OpenedInput> {
  const source = await openFile(path, { signal: options.signal });
  try {
    if (source.descriptor?.kind === "file" && source.descriptor.identity !== identity) throw changedError(path);
    const tensors = options.tensors === "cut" ? await findTensors(source, options) : [];
    return {
      source,
      tensors,
      async checkUnchanged() {
        if (await hasFileChanged(source)) throw changedError(path);
      },
      close: () => source.close(),
    };
  } catch (error) {
    await source.close();
    throw error;
  }
}

/** None where the file is no model that is known, or a damaged one: it is stored all the same. */
export async function findTensors(
  source: Source,
  { engine, limits, signal }: Pick<InputOptions, "engine" | "limits" | "signal">,
): Promise<readonly Extent[]> {
  try {
    const { container } = await openSource(source, { engine, limits, signal });
    return container.kind === "model" ? tensorExtents(container) : [];
  } catch (error) {
    if (isTareError(error)) return [];
    throw error;
  }
}
