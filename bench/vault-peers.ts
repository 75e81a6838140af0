import { existsSync } from "node:fs";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { isInstalled, timeRun } from "./child.ts";
import type { Workspace } from "./workspace.ts";

/** A program that stores files and restores them. Each call starts from nothing and returns its milliseconds. */
export interface VaultSide {
  readonly name: string;
  /** Adds to an empty repository. Making it is not timed. */
  add(): Promise<number>;
  /** Extracts everything that the last `add` stored. */
  extract(): Promise<number>;
}

/** The installed ones of restic, borg and, for a single file, the reference of AeroVault (`AEROVAULT` names it). */
export async function vaultPeers(workspace: Workspace, input: string): Promise<VaultSide[]> {
  const peers: VaultSide[] = [];
  if (await isInstalled("restic")) peers.push(await restic(workspace, input));
  if (await isInstalled("borg")) peers.push(borg(workspace, input));
  const aerovault = findReference();
  // A tree of 50 000 files takes the reference two minutes per run.
  const isFile = (await stat(input)).isFile();
  if (isFile && aerovault !== undefined) peers.push(reference(workspace, input, aerovault));
  return peers;
}

/** The reference of AeroVault, if `AEROVAULT` names it. */
export function findReference(): string | undefined {
  const program = process.env["AEROVAULT"];
  return program !== undefined && existsSync(program) ? program : undefined;
}

async function restic(workspace: Workspace, input: string): Promise<VaultSide> {
  const repository = workspace.path("restic");
  const out = workspace.path("restic-out");
  const password = await workspace.file("restic-password", (path) => writeFile(path, "correct horse battery staple"));
  const run = (...args: readonly string[]): Promise<number> =>
    timeRun({ program: "restic", args: ["-q", "--no-cache", "-r", repository, "--password-file", password, ...args] });
  return {
    name: "restic",
    async add() {
      await rm(repository, { recursive: true, force: true });
      await run("init");
      return run("backup", input);
    },
    async extract() {
      await rm(out, { recursive: true, force: true });
      return run("restore", "latest", "--target", out);
    },
  };
}

function borg(workspace: Workspace, input: string): VaultSide {
  const repository = workspace.path("borg");
  const out = workspace.path("borg-out");
  const shell = (script: string): Promise<number> =>
    timeRun({ program: "sh", args: ["-c", `export BORG_PASSPHRASE=horse BORG_BASE_DIR=${out}-base; ${script}`] });
  return {
    name: "borg",
    async add() {
      await rm(repository, { recursive: true, force: true });
      await shell(`borg init -e repokey-blake2 ${repository}`);
      return shell(`borg create -C zstd,3 ${repository}::a ${input}`);
    },
    async extract() {
      await rm(out, { recursive: true, force: true });
      await mkdir(out);
      return shell(`cd ${out} && borg extract ${repository}::a`);
    },
  };
}

/** Times a verb of the reference. It reads passwords only from a terminal, which util-linux's `script` provides. */
export function timeReference(program: string, ...args: readonly string[]): Promise<number> {
  // A line too many keeps the terminal open for more than a second.
  const typed = "correct horse battery staple\\n".repeat(args[0] === "create" ? 2 : 1);
  const command = `${program} vault ${args.join(" ")}`;
  return timeRun({ program: "sh", args: ["-c", `printf '${typed}' | script -qec '${command}' /dev/null`] });
}

function reference(workspace: Workspace, input: string, program: string): VaultSide {
  const vault = workspace.path("reference.aerovault");
  const out = workspace.path("reference-out");
  const run = (...args: readonly string[]): Promise<number> => timeReference(program, ...args);
  return {
    name: "the reference",
    async add() {
      await rm(vault, { force: true });
      await run("create", "--zstd-level", "3", vault);
      return run("add", vault, input);
    },
    async extract() {
      await rm(out, { recursive: true, force: true });
      return run("extract", vault, "-o", out);
    },
  };
}
