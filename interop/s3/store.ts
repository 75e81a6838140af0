/** A store that the rounds run against. */
export interface Store {
  /** For the reader of the output. */
  readonly kind: string;
  /** Nodes that can be killed one by one; 1 where it is one machine. */
  readonly nodeCount: number;
  /** Whether it can be told to write only where nothing is: If-None-Match on PUT and on the end of an upload. */
  readonly conditions: "known" | "unknown";
  endpoint(): string;
  kill(node: number): void;
  stop(): Promise<void>;
}
