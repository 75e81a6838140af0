/** The result of one round of comparisons. */
export class Outcome {
  readonly title: string;
  readonly problems: string[] = [];
  readonly notes: string[] = [];
  #checks = 0;

  constructor(title: string) {
    this.title = title;
  }

  /** Counts one comparison; each difference is a problem. */
  check(what: string, differences: readonly string[]): void {
    this.#checks++;
    this.problems.push(...differences.map((difference) => `${what}: ${difference}`));
  }

  note(text: string): void {
    this.notes.push(text);
  }

  print(): void {
    const verdict = this.problems.length === 0 ? "agree" : `${this.problems.length} PROBLEMS`;
    console.log(`${this.title}: ${this.#checks} comparisons, ${verdict}`);
    for (const note of this.notes) console.log(`  ${note}`);
    for (const problem of this.problems.slice(0, 20)) console.error(`  ${problem}`);
  }
}
