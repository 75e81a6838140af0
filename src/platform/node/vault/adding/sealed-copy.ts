import { randomBytes } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import type { Bytes } from "../../../../base/bytes.ts";
import { ComputedSource } from "../../../../bytes/derived.ts";
import { allocateFor, ReadGuard } from "../../../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../../../bytes/source.ts";
import type { OpenedInput } from "../../../../operations/vault/inputs.ts";
import { AES_KEY_BYTES } from "../../../../primitives/cipher/aes.ts";
import { GCM_SIV_NONCE_BYTES, GCM_SIV_TAG_BYTES, type GcmSivKey } from "../../../../primitives/cipher/gcm-siv.ts";
import { readFully } from "../../files/reads.ts";
import { changedError } from "../../files/source.ts";
import { spoolPieces } from "../../files/spool.ts";
import { findTensors, type InputOptions } from "./inputs.ts";

/** Plain bytes of a frame: one seal for each, so that a read decrypts little more than it returns. */
const FRAME_BYTES = 256 << 10;
const SEALED_FRAME_BYTES = FRAME_BYTES + GCM_SIV_TAG_BYTES;
const NO_ASSOCIATED: Bytes = new Uint8Array(0);

export interface CopyOptions extends Pick<InputOptions, "engine" | "limits" | "signal"> {
  /** Where the copy is kept: the folder of the vault, which has the room and the permissions. */
  readonly folder: string;
  readonly label: string;
}

/**
 * Keeps a stream until all of it is here, and finds its tensors, as for a file on disk. The copy is a file without a
 * name, encrypted with a key that only this process has: what goes into a vault is never on disk in clear text.
 */
export async function keepSealed(pieces: AsyncIterable<Bytes>, options: CopyOptions): Promise<OpenedInput> {
  const { engine, folder, label, limits, signal } = options;
  const secret = new Uint8Array(randomBytes(AES_KEY_BYTES));
  const key = await engine.aesGcmSiv(secret);
  secret.fill(0);
  let source: SealedCopy | undefined;
  try {
    const frames = new FrameSealer(key);
    // The disk sets the limit: a vault takes a file of any length.
    const most = { maxSpoolBytes: Number.MAX_SAFE_INTEGER };
    const handle = await spoolPieces(frames.seal(pieces), label, { folder, signal, ...most });
    const copy = new SealedCopy(handle, key, { label, byteLength: frames.byteLength });
    source = copy;
    const tensors = await findTensors(copy, { engine, limits, signal });
    return { source: copy, tensors, checkUnchanged: async () => undefined, close: () => copy.close() };
  } catch (error) {
    if (source === undefined) key.wipe();
    else await source.close();
    throw error;
  }
}

/** Cuts a stream into frames of equal length and seals each. */
class FrameSealer {
  readonly #key: GcmSivKey;
  readonly #frame: Bytes = new Uint8Array(SEALED_FRAME_BYTES);
  #filled = 0;
  #index = 0;

  constructor(key: GcmSivKey) {
    this.#key = key;
  }

  /** Plain bytes so far. */
  get byteLength(): number {
    return this.#index * FRAME_BYTES + this.#filled;
  }

  /** The sealed frames. Each is valid until the next is asked for. */
  async *seal(pieces: AsyncIterable<Bytes>): AsyncGenerator<Bytes> {
    for await (const piece of pieces) {
      for (let rest = piece; rest.byteLength > 0; ) {
        const part = rest.subarray(0, FRAME_BYTES - this.#filled);
        this.#frame.set(part, this.#filled);
        this.#filled += part.byteLength;
        rest = rest.subarray(part.byteLength);
        if (this.#filled < FRAME_BYTES) continue;
        yield this.#sealed();
        this.#filled = 0;
        this.#index++;
      }
    }
    if (this.#filled > 0) yield this.#sealed();
  }

  #sealed(): Bytes {
    const plain = this.#frame.subarray(0, this.#filled);
    return this.#key.seal(frameNonce(this.#index), plain, NO_ASSOCIATED, this.#frame);
  }
}

/** Reads the frames back. A frame that is not the one that was written is an error, never other bytes. */
class SealedCopy extends ComputedSource implements Source {
  readonly #handle: FileHandle;
  readonly #key: GcmSivKey;
  /** The frame that was read last: headers are read in small steps. */
  #last: { readonly index: number; readonly bytes: Bytes } | undefined;
  readonly #guard: ReadGuard;

  constructor(
    handle: FileHandle,
    key: GcmSivKey,
    { label, byteLength }: { readonly label: string; readonly byteLength: number },
  ) {
    super({ label, byteLength, pieceBytes: FRAME_BYTES });
    this.#handle = handle;
    this.#key = key;
    this.#guard = new ReadGuard(label, byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    const target = into ?? allocateFor(byteLength, this.label);
    for (let done = 0; done < byteLength; ) {
      const index = Math.floor((offset + done) / FRAME_BYTES);
      const from = offset + done - index * FRAME_BYTES;
      const part = (await this.#frame(index, signal)).subarray(from, from + byteLength - done);
      target.set(part, done);
      done += part.byteLength;
    }
    return target;
  }

  override async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    this.#guard.checkStream(offset, options);
    yield* super.stream(offset, options);
  }

  override async close(): Promise<void> {
    if (this.#guard.closed) return;
    this.#guard.close();
    this.#last?.bytes.fill(0);
    this.#key.wipe();
    await this.#handle.close();
  }

  async #frame(index: number, signal: AbortSignal | undefined): Promise<Bytes> {
    if (this.#last?.index === index) return this.#last.bytes;
    const byteLength = Math.min(FRAME_BYTES, this.byteLength - index * FRAME_BYTES) + GCM_SIV_TAG_BYTES;
    const sealed = new Uint8Array(byteLength);
    await readFully(this.#handle, sealed, { offset: index * SEALED_FRAME_BYTES, label: this.label, signal });
    this.#guard.checkOpen(); // the key is wiped by now if it was closed meanwhile
    const bytes = this.#key.open(frameNonce(index), sealed, NO_ASSOCIATED);
    if (bytes === undefined) throw changedError(this.label);
    this.#last = { index, bytes };
    return bytes;
  }
}

/** The key is used for one copy only, so that the number of a frame never repeats. */
function frameNonce(index: number): Bytes {
  const nonce = new Uint8Array(GCM_SIV_NONCE_BYTES);
  new DataView(nonce.buffer).setBigUint64(0, BigInt(index), true);
  return nonce;
}
