import { type BenchContext, megabytes, milliseconds, type Row } from "./job.ts";
import { type Statistics, takeTurns } from "./measure.ts";
import { type VaultSide, vaultPeers } from "./vault-peers.ts";

interface Compared {
  readonly job: string;
  readonly input: string;
  readonly ours: VaultSide;
  /** The length of our vault, after it was made. */
  stored(): Promise<number>;
}

/** Rows for adding and extracting, ours and each peer's in turn. */
export async function vaultRows({ workspace, runs }: BenchContext, compared: Compared): Promise<Row[]> {
  const { job, ours, input } = compared;
  const sides = [ours, ...(await vaultPeers(workspace, input))];
  const rows: Row[] = [];
  for (const measure of ["add", "extract"] as const) {
    const [mine, ...others] = await takeTurns(
      runs,
      sides.map((side) => () => side[measure]()),
    );
    rows.push({ job, measure, ours: milliseconds(mine as Statistics) });
    for (const [i, theirs] of others.entries()) {
      rows.push(againstRow(job, `${measure}, against ${sides[i + 1]?.name}`, mine as Statistics, theirs));
    }
    if (measure === "add") {
      rows.push({ job, measure: "length of the vault", ours: megabytes(await compared.stored()) });
    }
  }
  return rows;
}

function againstRow(job: string, measure: string, mine: Statistics, theirs: Statistics): Row {
  const ratio = theirs.median / mine.median;
  return {
    job,
    measure,
    ours: milliseconds(mine),
    theirs: milliseconds(theirs),
    ratio: `${ratio.toFixed(2)}× faster`,
    goal: "> 1×",
    met: ratio > 1,
  };
}
