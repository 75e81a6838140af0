import { mkdir, rm, writeFile } from "node:fs/promises";
import { isInstalled, timeRun } from "./child.ts";
import { type BenchContext, megabytes, milliseconds, type Row } from "./job.ts";
import { repeat, type Statistics } from "./measure.ts";

interface Measured {
  readonly job: string;
  readonly input: string;
  readonly add: Statistics;
  readonly extract: Statistics;
  /** Length of the vault. */
  readonly stored: number;
}

/** The same input with restic and borg, where they are installed; our own figures in any case. */
export async function peerRows(context: BenchContext, ours: Measured): Promise<Row[]> {
  const { job, add, extract } = ours;
  const rows: Row[] = [
    { job, measure: "length of the vault", ours: megabytes(ours.stored) },
    { job, measure: "add", ours: milliseconds(add) },
    { job, measure: "extract", ours: milliseconds(extract) },
  ];
  for (const peer of [restic, borg]) {
    if (!(await isInstalled(peer.name))) continue;
    const theirs = await peer.measure(context, ours.input);
    for (const [measure, mine, other] of [
      ["add", add, theirs.add],
      ["extract", extract, theirs.extract],
    ] as const) {
      const ratio = other.median / mine.median;
      rows.push({
        job,
        measure: `${measure}, against ${peer.name}`,
        ours: milliseconds(mine),
        theirs: milliseconds(other),
        ratio: `${ratio.toFixed(2)}× faster`,
        goal: "> 1×",
        met: ratio > 1,
      });
    }
  }
  return rows;
}

interface PeerTimes {
  readonly add: Statistics;
  readonly extract: Statistics;
}

interface Peer {
  readonly name: string;
  measure(context: BenchContext, input: string): Promise<PeerTimes>;
}

const restic: Peer = {
  name: "restic",
  async measure({ workspace, runs }, input) {
    const repository = workspace.path("restic");
    const password = workspace.path("restic-password");
    const out = workspace.path("restic-out");
    await writeFile(password, "correct horse battery staple");
    const run = (...args: readonly string[]): Promise<number> =>
      timeRun({
        program: "restic",
        args: ["-q", "--no-cache", "-r", repository, "--password-file", password, ...args],
      });
    const add = await repeat(runs, async () => {
      await rm(repository, { recursive: true, force: true });
      await run("init");
      return run("backup", input);
    });
    const extract = await repeat(runs, async () => {
      await rm(out, { recursive: true, force: true });
      return run("restore", "latest", "--target", out);
    });
    for (const path of [repository, out]) await rm(path, { recursive: true, force: true });
    return { add, extract };
  },
};

const borg: Peer = {
  name: "borg",
  async measure({ workspace, runs }, input) {
    const repository = workspace.path("borg");
    const out = workspace.path("borg-out");
    const shell = (script: string): Promise<number> =>
      timeRun({ program: "sh", args: ["-c", `export BORG_PASSPHRASE=horse BORG_BASE_DIR=${out}-base; ${script}`] });
    const add = await repeat(runs, async () => {
      await rm(repository, { recursive: true, force: true });
      await shell(`borg init -e repokey-blake2 ${repository}`);
      return shell(`borg create -C zstd,3 ${repository}::a ${input}`);
    });
    const extract = await repeat(runs, async () => {
      await rm(out, { recursive: true, force: true });
      await mkdir(out);
      return shell(`cd ${out} && borg extract ${repository}::a`);
    });
    for (const path of [repository, out, `${out}-base`]) await rm(path, { recursive: true, force: true });
    return { add, extract };
  },
};
