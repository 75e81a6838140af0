import type { Bytes } from "../../base/bytes.ts";

/** Who is handed a body as it arrives, without being waited for. */
export interface Taker {
  /** Takes bytes that lie in the connection's own buffer. */
  readonly take: (piece: Bytes) => void;
  /** Where the socket may write the bytes that come next, empty when there is enough; absent where all go through `take`. */
  readonly room?: () => Bytes;
  /** Takes note of bytes that the socket wrote there. */
  readonly landed?: (byteLength: number) => void;
  readonly end: (failure?: unknown) => void;
}

/** A taker whose bytes the socket writes where they belong: at these rates a copy costs as much as a digest. */
export function fillingTaker(into: Bytes, onBytes: (byteLength: number) => void): Omit<Taker, "end"> {
  let filled = 0;
  const landed = (byteLength: number): void => {
    filled += byteLength;
    onBytes(byteLength);
  };
  return {
    take(piece) {
      into.set(piece, filled);
      landed(piece.byteLength);
    },
    room: () => into.subarray(filled),
    landed,
  };
}
