import { resolveLimits } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { FormatReader, Members, MembersContext, OpenContext } from "../../model/format.ts";
import { readHeader } from "./header.ts";
import { ggufFields, ggufSections } from "./inspect.ts";
import { GGUF_LIMITS, type GgufLimits } from "./limits.ts";
import { type GgufFile, GgufModel, ggufModel } from "./model.ts";
import { describeGguf } from "./origin.ts";
import {
  checkSet,
  readSiblings,
  type SplitFacts,
  siblingNames,
  siblingWarnings,
  splitFacts,
  withoutSplitKeys,
} from "./split.ts";
import { decodeGgufValue } from "./values.ts";

/**
 * Reads the header, never the weights: one read of 256 KiB and, for longer headers, one stream. The first part of
 * a split set brings the others along, where a resolver can reach them.
 */
export async function openGguf(source: Source, context: OpenContext): Promise<GgufModel> {
  const limits = resolveLimits("gguf", GGUF_LIMITS, context.limits);
  const file: GgufFile = { source, header: await readHeader(source, limits, context.signal) };
  const { metadata } = file.header;
  const split = splitFacts(metadata);
  if (split === undefined) return new GgufModel({ files: [file], metadata, warnings: [] });
  const names = split.no === 0 ? siblingNames(context.resolver?.name ?? "", split.count) : undefined;
  if (names === undefined || context.resolver === undefined) {
    return new GgufModel({ files: [file], metadata, warnings: [lonePart(file, split)] });
  }
  return openSet(file, split, { names, resolver: context.resolver, limits, signal: context.signal });
}

async function openSet(
  first: GgufFile,
  split: SplitFacts,
  options: Parameters<typeof readSiblings>[1] & { readonly limits: GgufLimits },
): Promise<GgufModel> {
  const siblings = await readSiblings(first, options);
  try {
    checkSet([first, ...siblings], split);
  } catch (error) {
    await Promise.allSettled(siblings.map(({ source }) => source.close()));
    throw error;
  }
  return new GgufModel({
    files: [first, ...siblings],
    metadata: withoutSplitKeys(first.header.metadata),
    warnings: siblingWarnings(siblings),
  });
}

function lonePart({ source, header }: GgufFile, { no, count, tensorCount }: SplitFacts): Finding {
  const share = tensorCount === undefined ? "" : ` (${header.infos.length} of ${tensorCount} tensors)`;
  return {
    severity: "warning",
    code: "format/gguf.lone-part",
    message: `This is part ${no + 1} of ${count}, opened alone${share}`,
    at: { source: source.label, path: "split.no" },
    hint: "Open the first part, named like model-00001-of-00003.gguf, with the others beside it",
  };
}

/** All parts of a split, from its first one; undefined for every other file. */
async function ggufMembers(source: Source, context: MembersContext): Promise<Members | undefined> {
  // Without a resolver only this one file is opened, and its metadata keeps the keys of the split.
  const { metadata } = await openGguf(source, { ...context, resolver: undefined });
  const split = splitFacts(metadata);
  const names = split?.no === 0 ? siblingNames(context.name, split.count) : undefined;
  return names === undefined ? undefined : { files: names.map((path) => ({ path })) };
}

/** GGUF, versions 2 and 3: the format of llama.cpp and ggml. */
export const reader: FormatReader = {
  limits: GGUF_LIMITS,
  open: openGguf,
  members: ggufMembers,
  sections: (container) => ggufSections(ggufModel(container)),
  carriesDigests: () => false,
  fields: async (container, range) => ggufFields(ggufModel(container), range),
  describe: (container) => describeGguf(ggufModel(container)),
  decodeValue: decodeGgufValue,
};
