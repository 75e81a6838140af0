/** Where one chunk is. */
export interface PlacedChunk {
  readonly index: number;
  /** Of its length prefix, in the file. */
  readonly offset: number;
  /** Of its first plain byte, in the entry. */
  readonly start: number;
  readonly plainBytes: number;
}

/** Where the chunks of an entry are. */
export interface ChunkLayout {
  readonly kind: "even" | "walked";
  chunk(index: number): PlacedChunk;
  /** The chunk that holds a plain byte. */
  find(position: number): number;
}

export interface EvenLayout {
  /** Of the first chunk, in the file. */
  readonly offset: number;
  readonly size: number;
  readonly chunkCount: number;
  readonly chunkSize: number;
  /** What a stored chunk is longer than its plain bytes, its prefix included. */
  readonly overhead: number;
}

/**
 * As every writer known lays chunks out: all full but the last. Undefined where the numbers contradict that. What it says
 * is a guess that each chunk's own prefix has to confirm.
 */
export function evenLayout({ offset, size, chunkCount, chunkSize, overhead }: EvenLayout): ChunkLayout | undefined {
  if (chunkCount !== Math.ceil(size / chunkSize)) return undefined;
  return {
    kind: "even",
    chunk: (index) => ({
      index,
      offset: offset + index * (chunkSize + overhead),
      start: index * chunkSize,
      plainBytes: Math.min(chunkSize, size - index * chunkSize),
    }),
    find: (position) => Math.floor(position / chunkSize),
  };
}

/** From a table: the format lets any chunk be short. */
export function walkedLayout(offset: number, plainLengths: readonly number[], overhead: number): ChunkLayout {
  const starts = new Float64Array(plainLengths.length + 1);
  plainLengths.forEach((length, i) => {
    starts[i + 1] = (starts[i] as number) + length;
  });
  return {
    kind: "walked",
    chunk: (index) => ({
      index,
      offset: offset + (starts[index] as number) + index * overhead,
      start: starts[index] as number,
      plainBytes: plainLengths[index] as number,
    }),
    find(position) {
      let low = 0;
      let high = plainLengths.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((starts[middle + 1] as number) > position) high = middle;
        else low = middle + 1;
      }
      return low;
    },
  };
}
