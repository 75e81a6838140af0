/** What a run of bytes can be; the index is what the table stores. */
export const KINDS = ["header", "metadata", "index", "tensor", "data", "integrity", "padding", "gap"] as const;
export type Kind = (typeof KINDS)[number];
