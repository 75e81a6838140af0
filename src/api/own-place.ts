import { UsageError } from "../base/errors.ts";
import { callersSinkOf } from "../bytes/caller.ts";
import { type FileHandle, isFileHandle } from "../bytes/handles/handle.ts";
import { fileHandleSink } from "../bytes/handles/outputs.ts";
import type { OwnFile, OwnFileRule, Request, VerbHost } from "./host.ts";
import type { Input, OpenedInput } from "./inputs.ts";

/** An opened input, and what is about to happen to it. */
export interface OwnInput {
  readonly input: Input;
  readonly opened: OpenedInput;
  readonly request: Request;
  /** What the verb does to the file. */
  readonly kind: "sign" | "edit";
}

export interface OwnRule extends OwnFileRule {
  /** The file to write, by the name of the one that is read. */
  name(path: string): string;
}

/** The file that an input was read from, or one beside it, to be written. */
export interface OwnPlace extends Omit<OwnFile, "patch"> {
  readonly path: string;
  /** Absent if the file can only be replaced as a whole. */
  readonly patch?: OwnFile["patch"];
}

/** Only paths and file handles can be written back; everything else needs an output. */
export async function ownPlace(
  host: VerbHost,
  { input, opened, request, kind }: OwnInput,
  rule: OwnRule,
): Promise<OwnPlace> {
  const label = opened.container.parts[0]?.label;
  if (typeof input === "object" && isFileHandle(input) && rule.name(input.name) === input.name)
    return handlePlace(input, request.signal);
  const isText = typeof input === "string" || input instanceof URL;
  const isFile = isText && label !== undefined && opened.resolver !== undefined && !isAddress(opened.label);
  const disk = isFile ? await host.disk?.(request) : undefined;
  if (disk === undefined || label === undefined) throw elsewhere(opened.label, kind);
  const path = rule.name(label);
  return { path, ...disk.fileAt(path, rule) };
}

/** A handle names the file that its user chose; what is written appears when it is complete. */
function handlePlace(handle: FileHandle, signal: AbortSignal | undefined): OwnPlace {
  return {
    path: handle.name,
    checkInputs: async () => undefined,
    checkReplaceable: async () => undefined,
    create: () => callersSinkOf(handle.name, signal, () => fileHandleSink(handle)),
  };
}

function isAddress(label: string): boolean {
  return label === "-" || /^[a-z][a-z0-9+.-]+:\/\//i.test(label);
}

function elsewhere(label: string, kind: OwnInput["kind"]): UsageError {
  const message =
    kind === "sign"
      ? `Cannot write beside "${label}": only files on disk can be signed in place`
      : `Cannot edit "${label}" in its place: only files on disk can be`;
  return new UsageError(
    "usage/arguments",
    message,
    { source: "options" },
    { hint: "Name the output with the option output" },
  );
}
