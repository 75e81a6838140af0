import { rm, writeFile } from "node:fs/promises";
import { type CommandLine, commandText, isInstalled, nodeCommand, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, timesRow } from "../job.ts";
import { interleave } from "../measure.ts";

/** As a multiple of the time that the native program takes for the key alone. */
const AT_MOST = 1.3;
/** The cost of every AeroVault v3: 128 MiB, four passes, four lanes, 32 bytes. */
const COST = ["-id", "-t", "4", "-k", "131072", "-p", "4", "-l", "32", "-r"] as const;

/** Opens a vault by its password, including Node's start, compared with the key derivation alone in machine code. */
export const unlock: Job = { name: "unlock", title: "vault: open by password", run: runUnlock };

async function runUnlock({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const words = "correct horse battery staple";
  const password = await workspace.file("vault-password", (path) => writeFile(path, words));
  const vault = workspace.path("unlock.aerovault");
  const verb = (name: string): CommandLine => nodeCommand(tare, "vault", name, vault, "--password-file", password);
  await rm(vault, { force: true });
  await timeRun(verb("create"));
  const argon2: CommandLine = {
    program: "sh",
    args: ["-c", `argon2 0123456789abcdef ${COST.join(" ")} < ${password}`],
  };
  const commands = [verb("info"), argon2].map((one) => commandText(one, shortNames(root, workspace)));
  if (!(await isInstalled("argon2"))) {
    return { rows: [], commands, notes: ["argon2 is not installed: install the Debian package argon2"] };
  }
  const sides = await interleave(
    runs,
    () => timeRun(verb("info")),
    () => timeRun(argon2),
  );
  await rm(vault, { force: true });
  const place = { job: unlock.name, measure: "vault info of an empty vault, against the program argon2" };
  return { rows: [timesRow(place, sides, AT_MOST)], commands };
}
