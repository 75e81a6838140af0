import { constants, existsSync, mkdirSync, rmdirSync, type Stats, statSync } from "node:fs";
import { lstat, mkdir, open, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { errnoOf } from "../errors.ts";

/** Owner and rights, as `stat` gives them. */
export type Ownership = Pick<Stats, "uid" | "gid" | "mode">;

/**
 * Why another user may have put the file at a path: it has another owner, or others may write to it. Undefined if it is
 * only ours, and on Windows, where access lists that Node does not show keep the folders of users apart.
 */
export function foreignness({ uid, gid, mode }: Ownership): string | undefined {
  const own = process.geteuid?.();
  if (own === undefined) return undefined;
  if (uid !== own) return `belongs to another user (uid ${uid}, this one is ${own})`;
  if ((mode & 0o002) !== 0) return "may be written to by every user";
  // If every user has a private group with the user's number, the group has no other member.
  const isOwnGroup = gid === own && gid === process.getegid?.();
  return (mode & 0o020) !== 0 && !isOwnGroup ? `may be written to by others of group ${gid}` : undefined;
}

/**
 * Why another user may have put a file beside one that belongs to `owner`; undefined if only we or that owner can have.
 * A hard link gives a file of ours a name that we did not choose.
 */
export function strangeness(facts: Stats, owner: number | undefined): string | undefined {
  if (!facts.isFile()) return "is no plain file";
  if (facts.nlink > 1) return "has another name too (a hard link)";
  const own = process.geteuid?.();
  if (own === undefined || facts.uid === own || facts.uid === owner) return undefined;
  return `belongs to another user (uid ${facts.uid}, this one is ${own})`;
}

/** The programs that show access lists, for tests to replace. Only where systems have them: none is taken from PATH. */
export const accessPrograms = { getfacl: ["/usr/bin/getfacl", "/bin/getfacl"], ls: ["/usr/bin/ls", "/bin/ls"] };

/**
 * Whether a file has an access list besides its permission bits. Then its group bits are the list's mask: the most that
 * any named user or group may do, not what the group may do. Node has no call for such lists, so a program of the
 * system is asked; "unknown" if there is none that tells.
 */
export async function findAccessList(path: string): Promise<"none" | "some" | "unknown"> {
  if (process.geteuid === undefined) return "none";
  if (process.platform === "linux") {
    const list = await ask(accessPrograms.getfacl, ["-cp", "--", path]);
    if (list !== undefined) return /^(mask|user:[^:]+|group:[^:]+):/m.test(list) ? "some" : "none";
    // The ls of BusyBox shows no lists, and does not know this option.
    if ((await ask(accessPrograms.ls, ["--version"]))?.includes("GNU coreutils") !== true) return "unknown";
  }
  const line = await ask(accessPrograms.ls, ["-ld", "--", path]);
  const mark = /^[-a-z][-a-zA-Z]{9}(.)/.exec(line ?? "")?.[1];
  if (mark === undefined) return "unknown";
  return mark === "+" ? "some" : "none";
}

/** What the first of some programs that exists prints; undefined if there is none, or if it fails. */
async function ask(programs: readonly string[], args: readonly string[]): Promise<string | undefined> {
  const program = programs.find((one) => existsSync(one));
  if (program === undefined) return undefined;
  const { execFile } = await import("node:child_process");
  return new Promise((resolve) => {
    execFile(program, args, { env: { LC_ALL: "C" } }, (error, out) => resolve(error === null ? out : undefined));
  });
}

/**
 * Checks a folder from which we read our own state; for a link, its target counts. Undefined if it is only ours or does
 * not exist yet. We make the files in it, and each file is checked when it is opened.
 */
export async function foreignFolder(path: string, links: FolderLinks = "follow"): Promise<string | undefined> {
  const facts = await (links === "follow" ? stat : lstat)(path).catch(() => undefined);
  if (facts === undefined) return undefined;
  return facts.isSymbolicLink() ? "is a link" : foreignness(facts);
}

/** Whether a link may be in the place of a folder: the user makes some, tare makes none. */
export type FolderLinks = "follow" | "refuse";

/** A folder that is ours alone and held open: what is named through it is in it, wherever its own name leads meanwhile. */
export interface HeldFolder {
  /** The path by which the system finds a name in it. */
  at(name: string): string;
  close(): Promise<void>;
}

/** Why a folder is left alone. */
export interface RefusedFolder {
  readonly path: string;
  readonly why: string;
}

/**
 * Opens a folder and judges what was opened, not what its name leads to later. Undefined where nothing is there. `label` is
 * the path for people. Only on Linux an open folder has a name of its own; elsewhere its path is judged just before it is used.
 */
export async function holdFolder(
  path: string,
  links: FolderLinks,
  label: string = path,
): Promise<HeldFolder | RefusedFolder | undefined> {
  const named = await (links === "follow" ? stat : lstat)(path).catch(() => undefined);
  if (named === undefined) return undefined;
  if (named.isSymbolicLink()) return { path: label, why: "is a link" };
  if (!named.isDirectory()) return { path: label, why: "is no folder" };
  const why = foreignness(named);
  if (why !== undefined) return { path: label, why };
  if (!hasDescriptorPaths()) return { at: (name) => join(path, name), close: async () => undefined };
  const noLinks = links === "follow" ? 0 : constants.O_NOFOLLOW;
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | noLinks).catch(errnoOf);
  if (handle === "ENOENT") return undefined; // removed meanwhile
  if (typeof handle !== "object") return { path: label, why: `cannot be opened (${handle})` };
  const whyNow = foreignness(await handle.stat());
  if (whyNow === undefined) return { at: (name) => `/proc/self/fd/${handle.fd}/${name}`, close: () => handle.close() };
  await handle.close();
  return { path: label, why: whyNow };
}

/** True where open folders have names of their own under /proc, as on Linux. */
export function hasDescriptorPaths(): boolean {
  descriptorPaths ??= process.platform === "linux" && existsSync("/proc/self/fd");
  return descriptorPaths;
}

let descriptorPaths: boolean | undefined;

/** Makes a folder for us alone where it is missing; undefined where it cannot be made or is not ours alone. */
export async function makeOwnFolder(path: string): Promise<string | undefined> {
  const made = await makeFolder(path, 0o700).then(
    () => true,
    () => false,
  );
  return made && (await foreignFolder(path)) === undefined ? path : undefined;
}

/**
 * Makes a folder and its missing parents; true if it was missing. Node's own `recursive` fails with ENOENT for most
 * problems (a read-only file system, a full quota) and never ends below /proc. This function throws the system's error.
 */
export async function makeFolder(path: string, mode?: number): Promise<boolean> {
  const make = async (): Promise<boolean> => {
    try {
      await mkdir(path, mode);
      return true;
    } catch (error) {
      // Mostly EEXIST; for folders like "/" and on read-only file systems other errors come first.
      const facts = await stat(path).catch((other: unknown) => {
        throw errnoOf(other) === "ENOENT" ? error : other;
      });
      if (facts.isDirectory()) return false;
      throw error;
    }
  };
  return make().catch(async (error: unknown) => {
    if (errnoOf(error) !== "ENOENT" || dirname(path) === path) throw error;
    await makeFolder(dirname(path), mode);
    return make();
  });
}

/** The same, synchronously. */
export function makeFolderSync(path: string, mode?: number): boolean {
  const make = (): boolean => {
    try {
      mkdirSync(path, mode);
      return true;
    } catch (error) {
      if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return false;
      throw error;
    }
  };
  try {
    return make();
  } catch (error) {
    if (errnoOf(error) !== "ENOENT" || dirname(path) === path) throw error;
    makeFolderSync(dirname(path), mode);
    return make();
  }
}

/** The first folder on the way to a path that is missing, or undefined if the path exists. */
export function firstMissing(path: string): string | undefined {
  if (existsSync(path)) return undefined;
  const above = dirname(path);
  return above === path ? path : (firstMissing(above) ?? path);
}

/** Removes folders from a path up to the first one that was missing, as long as they are empty. */
export function removeEmptyFolders(path: string, first: string | undefined): void {
  if (first === undefined) return;
  try {
    for (let at = path; ; at = dirname(at)) {
      rmdirSync(at);
      if (at === first || dirname(at) === at) return;
    }
  } catch {
    // It has something in it, or belongs to another program by now.
  }
}

/** Undefined for a user without a home, as in containers that run under any number: Node throws for it. */
export function homeFolder(): string | undefined {
  try {
    return homedir();
  } catch {
    return undefined;
  }
}

/**
 * The folder of what this user keeps between runs on this machine and does not share: not in folders of models. Undefined
 * for a user without a home.
 */
export function stateFolder(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const state = env["XDG_STATE_HOME"];
  if (state?.startsWith("/") === true) return join(state, "tare");
  const home = homeFolder();
  return home === undefined ? undefined : join(home, ".local", "state", "tare");
}
