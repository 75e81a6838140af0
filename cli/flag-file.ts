import { open } from "node:fs/promises";
import { type Bytes, concatBytes } from "../src/base/bytes.ts";
import { LimitError } from "../src/base/errors.ts";
import { fileError } from "../src/platform/node/errors.ts";

/** What files that flags name may have at most: none that somebody wrote comes near it, and a device never ends. */
export const FLAG_FILE_BYTES = {
  /** A few lines: limits, headers. */
  settings: 1 << 20,
  /** Metadata, vocabularies, digests of every tensor. */
  data: 64 << 20,
} as const;

const PIECE_BYTES = 64 << 10;

/** The whole of a file that a flag names, a pipe too; `action` begins the error: "Cannot read --metadata". */
export async function readFlagFile(path: string, kind: keyof typeof FLAG_FILE_BYTES, action: string): Promise<Bytes> {
  const at = { source: path };
  const maxBytes = FLAG_FILE_BYTES[kind];
  const pieces: Bytes[] = [];
  let byteLength = 0;
  try {
    const handle = await open(path);
    try {
      for (;;) {
        const piece = new Uint8Array(PIECE_BYTES);
        // From where the last read ended: pipes have no positions.
        const { bytesRead } = await handle.read(piece, 0, PIECE_BYTES, null);
        if (bytesRead === 0) break;
        byteLength += bytesRead;
        if (byteLength > maxBytes) {
          const hint = "Name a file that holds nothing else";
          throw new LimitError("limit/flag-file", `${action}: must be <= ${maxBytes} bytes, found more`, at, { hint });
        }
        pieces.push(piece.subarray(0, bytesRead));
      }
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fileError(error, action, at);
  }
  return concatBytes(pieces);
}

/** As `readFlagFile`, for text. */
export async function readFlagText(path: string, kind: keyof typeof FLAG_FILE_BYTES, action: string): Promise<string> {
  // A byte order mark stays, as everything else does: whoever parses the text says what may stand there.
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await readFlagFile(path, kind, action));
}
