import { mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { isTareError } from "../src/base/errors.ts";
import { planConversion, writeConversion } from "../src/operations/convert.ts";
import { nodeEngine } from "../src/platform/node/engine/engine.ts";
import { directoryOutput } from "../src/platform/node/files/directory.ts";
import { openTarget } from "../src/platform/node/targets.ts";
import { READERS, writerById } from "../test/builders/loaded-formats.ts";

export interface Written {
  /** The file that opens the result. */
  readonly primary: string;
  /** All files, the primary one among them. */
  readonly files: readonly string[];
}

/** Converts a file or set to `path`; undefined if tare refuses because something would be lost. */
export async function writeWithTare(
  from: string,
  path: string,
  options: { readonly format: string; readonly maxShardBytes?: number },
): Promise<Written | undefined> {
  const engine = await nodeEngine();
  const opened = await openTarget(from, { engine });
  try {
    const { maxShardBytes } = options;
    const target = writerById(options.format);
    const conversion = planConversion(opened, target, { name: basename(path), maxShardBytes, formats: READERS });
    mkdirSync(dirname(path), { recursive: true });
    await writeConversion(conversion, directoryOutput(dirname(path), basename(path), { overwrite: "replace" }), {
      engine,
    });
    const files = conversion.plan.files.map(({ name }) => join(dirname(path), name));
    return { primary: join(dirname(path), conversion.plan.primary), files };
  } catch (error) {
    if (isTareError(error) && error.code === "unsupported/lossy") return undefined;
    throw error;
  } finally {
    await opened.close();
  }
}
