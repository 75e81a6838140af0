import type { TensorChange } from "../../src/operations/diff.ts";
import type { Comparison } from "../shared/calls.ts";

export interface ChangeRow {
  readonly name: string;
  readonly what: "added" | "removed" | "changed";
  /** For a tensor that both have. */
  readonly change?: TensorChange | undefined;
}

/** The differences, the largest change first. */
export function changeRows({ models, archives }: Comparison): {
  readonly rows: readonly ChangeRow[];
  readonly unchanged: number;
} {
  const report = models ?? archives;
  if (report === undefined) return { rows: [], unchanged: 0 };
  const changed: ChangeRow[] =
    models === undefined
      ? (archives?.changed ?? []).map(({ name }) => ({ name, what: "changed" as const }))
      : [...models.changed]
          .sort((a, b) => (b.delta?.meanAbs ?? 0) - (a.delta?.meanAbs ?? 0))
          .map((change) => ({ name: change.name, what: "changed" as const, change }));
  const rows: ChangeRow[] = [
    ...changed,
    ...report.removed.map((name) => ({ name, what: "removed" as const })),
    ...report.added.map((name) => ({ name, what: "added" as const })),
  ];
  return { rows, unchanged: report.unchanged };
}
