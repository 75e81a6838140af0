/** Numbers that several places share about moving bytes, each with its reason. */

/** The opening read: enough for the whole control region of most files, small enough to cost one round trip. */
export const OPENING_BYTES = 256 << 10;

/** The longest range of one request. Some servers and caches refuse longer ones, or cut them off. */
export const SPLIT_BYTES = 64 << 20;

/**
 * Bytes a second that all transfers of this process have to bring together, or they count as dead. Slower than any line
 * that somebody would load a model over; as usual for such bounds (git and package managers recommend 1000).
 */
export const LEAST_RATE = 1024;
