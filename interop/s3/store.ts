/** A store that the rounds run against. */
export interface Store {
  /** Shown in the output. */
  readonly kind: string;
  /** Nodes that can be killed one by one; 1 for a single machine. */
  readonly nodeCount: number;
  /** Whether it can write only if nothing exists: If-None-Match on PUT and on the end of an upload. */
  readonly conditions: "known" | "unknown";
  endpoint(): string;
  kill(node: number): void;
  stop(): Promise<void>;
}
