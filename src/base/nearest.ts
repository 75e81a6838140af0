/** The candidate with the fewest edits from what was typed, if it is close enough to suggest. */
export function nearest(typed: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  // A third of the letters may be wrong: above that a suggestion is a guess.
  let bestDistance = Math.max(1, Math.floor(typed.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(typed.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** A hint for a name that does not exist: what was meant, and all that exist, that one first. */
export function nearestFirst(typed: string, names: readonly string[], say: string): string {
  const meant = nearest(typed, names);
  if (meant === undefined) return `${say} ${names.join(", ")}`;
  return `Did you mean "${meant}"? ${say} ${[meant, ...names.filter((name) => name !== meant)].join(", ")}`;
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = (last[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min((row[j - 1] as number) + 1, (last[j] as number) + 1, replace);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) cost = Math.min(cost, (beforeLast[j - 2] as number) + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] as number;
}
