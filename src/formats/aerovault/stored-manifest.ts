import type { Bytes } from "../../base/bytes.ts";
import { allocateFor } from "../../bytes/layers/base.ts";
import type { Source } from "../../bytes/source.ts";
import type { Room } from "./framing.ts";
import type { StoredHeader } from "./header.ts";

/** Directory and manifest are usually neighbours: up to this many bytes between them are read to save a request. */
const NEAR_BYTES = 64 << 10;

/** Some thousand entries: reading so much takes long enough to do something else meanwhile. */
const LONG_BYTES = 1 << 20;

/** The sections that say what a vault holds, as they stand in the file. */
export interface ControlBytes {
  readonly directory: Bytes;
  readonly manifest: StoredManifest;
}

/** A manifest in its vault. One that is long is read when somebody begins with it; a short one is there. */
export interface StoredManifest {
  /** Where it is decrypted: what `take` gives may be written to, or not. */
  readonly room: Room;
  /** Begins to read, for `take`, which tells what goes wrong. Whoever does not come to that closes the source. */
  begin?(): void;
  /** The bytes in the file: once more where somebody took them already. */
  take(): Promise<Bytes>;
}

/** Reads the directory, and the manifest with it unless that is long. */
export async function readControl(
  source: Source,
  header: StoredHeader,
  signal: AbortSignal | undefined,
): Promise<ControlBytes> {
  const { manifestOffset, manifestLength, extensionDirectoryOffset, extensionDirectoryLength } = header.values;
  const gap = extensionDirectoryOffset - (manifestOffset + manifestLength);
  if (manifestLength >= LONG_BYTES || gap < 0 || gap > NEAR_BYTES) {
    const directory = await source.read(extensionDirectoryOffset, extensionDirectoryLength, { signal });
    const readLong = async (): Promise<Bytes> => {
      const into = allocateFor(manifestLength, source.label);
      return source.read(manifestOffset, manifestLength, { into, signal });
    };
    return { directory, manifest: readLater(readLong) };
  }
  const bytes = await source.read(manifestOffset, manifestLength + gap + extensionDirectoryLength, { signal });
  const take = async (): Promise<Bytes> => bytes.subarray(0, manifestLength);
  return { directory: bytes.subarray(manifestLength + gap), manifest: { room: "new", take } };
}

function readLater(read: () => Promise<Bytes>): StoredManifest {
  let reading: Promise<Bytes> | undefined;
  return {
    room: "same",
    begin() {
      reading = read();
      reading.catch(() => undefined);
    },
    take() {
      const taken = reading ?? read();
      reading = undefined;
      return taken;
    },
  };
}
