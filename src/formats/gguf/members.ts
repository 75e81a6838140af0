import type { Source } from "../../bytes/source.ts";
import type { Members, MembersContext } from "../../model/members.ts";
import { openGguf } from "./open.ts";
import { siblingNames, splitFacts } from "./split.ts";

/** All parts of a split, from its first one; undefined for every other file. */
export async function ggufMembers(source: Source, context: MembersContext): Promise<Members | undefined> {
  // Without a resolver only this one file is opened, and its metadata keeps the keys of the split.
  const { metadata } = await openGguf(source, { ...context, resolver: undefined });
  const split = splitFacts(metadata);
  const names = split?.no === 0 ? siblingNames(context.name, split.count) : undefined;
  return names === undefined ? undefined : { files: names.map((path) => ({ path })) };
}
