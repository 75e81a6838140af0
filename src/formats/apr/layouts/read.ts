import type { Bytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext } from "../../../model/format.ts";
import { aprKind } from "../index.ts";
import type { AprLayout, AprModel } from "../model.ts";
import { openApr1, openWrapper } from "./apr1.ts";
import { openAprender } from "./aprender.ts";
import { openAprn } from "./aprn.ts";
import { openWhisper } from "./whisper.ts";

type Opener = (source: Source, opening: Bytes, context: OpenContext) => Promise<AprModel>;

const OPENERS: Readonly<Partial<Record<AprLayout, Opener>>> = {
  aprender: openAprender,
  "aprender-2025": openAprender,
  wrapper: openWrapper,
  apr1: openApr1,
  whisper: openWhisper,
  aprn: openAprn,
};

/** Opens a file in one of the layouts that programs really write; `opening` holds its first bytes. */
export async function openWild(source: Source, opening: Bytes, context: OpenContext): Promise<AprModel> {
  const kind = aprKind(opening);
  const open = kind !== undefined && Object.hasOwn(OPENERS, kind) ? OPENERS[kind as AprLayout] : undefined;
  if (open !== undefined) return open(source, opening, context);
  const message = `Cannot open "${kind ?? "unknown"}" as one of the layouts of other programs`;
  throw new UsageError("usage/apr.container", message, { source: source.label });
}
