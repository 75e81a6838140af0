/** The kinds of runs of bytes; the table stores the index. */
export const KINDS = ["header", "metadata", "index", "tensor", "data", "integrity", "padding", "gap"] as const;
export type Kind = (typeof KINDS)[number];
