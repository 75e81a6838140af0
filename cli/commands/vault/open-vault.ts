import { UsageError } from "../../../src/base/errors.ts";
import type { Archive } from "../../../src/model/archive.ts";
import type { OpenedTarget } from "../../../src/platform/node/open-target.ts";
import type { Context } from "../../context.ts";

/** A vault that a command looks into; it is closed when the command ends. */
export interface OpenedArchive extends OpenedTarget {
  readonly container: Archive;
}

/** Opens a VAULT, a path, URL or file inside another vault; a model is refused. */
export async function openArchive(context: Context, target: string): Promise<OpenedArchive> {
  const opened = await context.open(target);
  const { container, format, label } = opened;
  if (container.kind === "archive") return { ...opened, container };
  const message = `Cannot look into "${label}": must be a vault, found a ${format.name} model`;
  const hint = "Look at models with: tare ls, tare inspect, tare cat";
  throw new UsageError("usage/not-an-archive", message, { source: label }, { hint });
}
