import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { makeFolder } from "./make-folder.ts";

/** Owner and rights, as `stat` gives them. */
export type Ownership = Pick<Stats, "uid" | "gid" | "mode">;

/**
 * Says why what lies at a path may have been put there by somebody else: it has another owner, or others may write to
 * it. Undefined where it is ours alone, and on Windows, where folders of a user are kept apart by lists that Node does
 * not show.
 */
export function foreignness({ uid, gid, mode }: Ownership): string | undefined {
  const own = process.geteuid?.();
  if (own === undefined) return undefined;
  if (uid !== own) return `belongs to another user (uid ${uid}, this one is ${own})`;
  if ((mode & 0o002) !== 0) return "may be written to by every user";
  // Where every user has a group of their own, which has the user's number, it has no other member.
  const isOwnGroup = gid === own && gid === process.getegid?.();
  return (mode & 0o020) !== 0 && !isOwnGroup ? `may be written to by others of group ${gid}` : undefined;
}

/**
 * Looks at a folder that state of ours is read from: what it leads to counts, where it is a link. Undefined where it is
 * ours alone or is not there yet. What is made in it is made by us, and each file is looked at when it is opened.
 */
export async function foreignFolder(path: string): Promise<string | undefined> {
  const facts = await stat(path).catch(() => undefined);
  return facts === undefined ? undefined : foreignness(facts);
}

/** Makes a folder for us alone where it is missing; undefined where it cannot be made or is not ours alone. */
export async function makeOwnFolder(path: string): Promise<string | undefined> {
  const made = await makeFolder(path, 0o700).then(
    () => true,
    () => false,
  );
  return made && (await foreignFolder(path)) === undefined ? path : undefined;
}
