/** Sentences, by their number, that are computed together. */
export interface GroupPlan {
  readonly members: readonly number[];
  readonly rows: number;
}

/**
 * Sentences by length, the longest first, in groups of at most `maxRows` tokens: rows are not padded, so what matters is
 * only that groups are full, and that the last ones to be computed are short.
 */
export function planGroups(lengths: readonly number[], maxRows: number): GroupPlan[] {
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] as number) - (lengths[a] as number) || a - b);
  const groups: { members: number[]; rows: number }[] = [];
  for (const member of order) {
    const length = lengths[member] as number;
    const last = groups.at(-1);
    if (last !== undefined && last.rows + length <= maxRows) {
      last.members.push(member);
      last.rows += length;
    } else {
      groups.push({ members: [member], rows: length });
    }
  }
  return groups;
}
