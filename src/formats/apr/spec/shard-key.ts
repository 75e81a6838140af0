/** The metadata key under which a shard says which one it is: `{"index": 0, "count": 4}`. An extension of ours. */
export const SHARD_KEY = "shard";
