import type { Bytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext } from "../../../model/format.ts";
import { aprKind } from "../index.ts";
import type { AprLayout, AprModel } from "../model.ts";

type Opener = (source: Source, opening: Bytes, context: OpenContext) => Promise<AprModel>;

const loadAprender = async (): Promise<Opener> => (await import("./aprender.ts")).openAprender;

/** Loaded one by one: they have little in common but their history. */
const OPENERS: Readonly<Partial<Record<AprLayout, () => Promise<Opener>>>> = {
  aprender: loadAprender,
  "aprender-2025": loadAprender,
  wrapper: async () => (await import("./apr1.ts")).openWrapper,
  apr1: async () => (await import("./apr1.ts")).openApr1,
  whisper: async () => (await import("./whisper.ts")).openWhisper,
  aprn: async () => (await import("./aprn.ts")).openAprn,
};

/** Opens a file of one of the layouts that programs really write; `opening` are its first bytes. */
export async function openWild(source: Source, opening: Bytes, context: OpenContext): Promise<AprModel> {
  const kind = aprKind(opening);
  const load = kind !== undefined && Object.hasOwn(OPENERS, kind) ? OPENERS[kind as AprLayout] : undefined;
  if (load !== undefined) return (await load())(source, opening, context);
  const message = `Cannot open "${kind ?? "unknown"}" as one of the layouts of other programs`;
  throw new UsageError("usage/apr.container", message, { source: source.label });
}
