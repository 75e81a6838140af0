import { type Bytes, concatBytes, plainBytes } from "../base/bytes.ts";
import { LimitError, SourceError, UsageError } from "../base/errors.ts";
import { checkRange } from "./extents.ts";
import { checkRelativeName } from "./resolver.ts";
import { checkFill, checkReserve, doneError, existsError, type Output, type Sink } from "./sink.ts";
import { PIECE_BYTES, type ReadOptions, type Source, type StreamOptions } from "./source.ts";

/** Bytes that are already here. Reads without `into` are views, not copies. */
export function memorySource(bytes: Uint8Array, label = "memory"): Source {
  return new MemorySource(plainBytes(bytes), label);
}

/** True if reads without `into` are views of bytes that are in memory anyway. */
export function isMemory(source: Source): boolean {
  return source instanceof MemorySource;
}

class MemorySource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #bytes: Bytes;
  #closed = false;

  constructor(bytes: Bytes, label: string) {
    this.#bytes = bytes;
    this.byteLength = bytes.byteLength;
    this.label = label;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#check(offset, byteLength, options.signal);
    const view = this.#bytes.subarray(offset, offset + byteLength);
    if (options.into === undefined) return view;
    checkInto(options.into, byteLength, this.label);
    options.into.set(view);
    return options.into;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    this.#check(offset, byteLength, options.signal);
    for (let done = 0; done < byteLength; done += PIECE_BYTES) {
      this.#check(offset, byteLength, options.signal);
      const start = offset + done;
      yield this.#bytes.subarray(start, Math.min(start + PIECE_BYTES, offset + byteLength));
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  #check(offset: number, byteLength: number, signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#closed) throw closedError(this.label);
    checkRange(this.label, this.byteLength, offset, byteLength);
  }
}

export function closedError(label: string): SourceError {
  return new SourceError("source/closed", "Cannot read: the source is closed", { source: label });
}

export function checkInto(into: Bytes, byteLength: number, label: string): void {
  if (into.byteLength === byteLength) return;
  const message = `Cannot read ${byteLength} bytes into a buffer of ${into.byteLength}`;
  throw new UsageError("usage/buffer-length", message, { source: label });
}

/** A Sink whose bytes end up in memory: `published` gives them after commit, and undefined before. */
export interface MemorySink extends Sink {
  readonly published: Bytes | undefined;
  reserve(byteLength: number): number;
  fill(offset: number, bytes: Bytes): Promise<void>;
}

/** An Output that keeps committed files by name. */
export interface MemoryOutput extends Output {
  readonly files: ReadonlyMap<string, Bytes>;
}

/** For browsers, small outputs and tests. Appended bytes are copied, so buffers may be reused at once. */
export function memorySink(label = "memory"): MemorySink {
  return new PieceSink(label, { publish: () => undefined });
}

/**
 * Refuses a name that was committed already with `usage/exists`, and bytes beyond `maxBytes`, of all files together,
 * with `limit/memory`.
 */
export function memoryOutput(name: string, label = "memory", maxBytes = Number.POSITIVE_INFINITY): MemoryOutput {
  const files = new Map<string, Bytes>();
  let used = 0;
  const claim = (byteLength: number): void => {
    if (used + byteLength > maxBytes) throw fullError(label, maxBytes);
    used += byteLength;
  };
  return {
    label,
    name,
    files,
    async create(fileName: string): Promise<Sink> {
      checkRelativeName(fileName, { source: label });
      if (files.has(fileName)) throw existsError(fileName, label);
      const publish = (bytes: Bytes): void => {
        if (files.has(fileName)) throw existsError(fileName, label);
        files.set(fileName, bytes);
      };
      return new PieceSink(`${label}/${fileName}`, { publish, claim });
    },
    async peek(fileName) {
      const bytes = files.get(fileName);
      return bytes === undefined ? undefined : memorySource(bytes, `${label}/${fileName}`);
    },
    async remove(fileName) {
      claim(-(files.get(fileName)?.byteLength ?? 0));
      files.delete(fileName);
    },
  };
}

interface PieceHolder {
  publish(bytes: Bytes): void;
  /** Called with the bytes that will be held, or are held no longer; throws if they are too many. */
  claim?(byteLength: number): void;
}

class PieceSink implements MemorySink {
  readonly label: string;
  readonly #holder: PieceHolder;
  /** Contiguous, in order; `starts` holds where each begins. */
  #pieces: Bytes[] = [];
  #starts: number[] = [];
  #position = 0;
  #published: Bytes | undefined;
  #state: "open" | "done" = "open";

  constructor(label: string, holder: PieceHolder) {
    this.label = label;
    this.#holder = holder;
  }

  get position(): number {
    return this.#position;
  }

  get published(): Bytes | undefined {
    return this.#published;
  }

  async append(bytes: Bytes): Promise<void> {
    this.#checkOpen();
    this.#holder.claim?.(bytes.byteLength);
    this.#push(bytes.slice());
  }

  reserve(byteLength: number): number {
    this.#checkOpen();
    checkReserve(byteLength, this.label);
    this.#holder.claim?.(byteLength);
    const at = this.#position;
    this.#push(new Uint8Array(byteLength));
    return at;
  }

  async fill(offset: number, bytes: Bytes): Promise<void> {
    this.#checkOpen();
    checkFill(offset, bytes.byteLength, this);
    let done = 0;
    for (let i = this.#pieceAt(offset); done < bytes.byteLength; i++) {
      const piece = this.#pieces[i] as Bytes;
      const within = offset + done - (this.#starts[i] as number);
      const part = bytes.subarray(done, done + piece.byteLength - within);
      piece.set(part, within);
      done += part.byteLength;
    }
  }

  async reopen(): Promise<Source> {
    this.#checkOpen();
    return memorySource(concatBytes(this.#pieces), this.label);
  }

  async commit(): Promise<void> {
    this.#checkOpen();
    this.#state = "done";
    const bytes = concatBytes(this.#pieces);
    this.#release();
    this.#holder.publish(bytes);
    this.#published = bytes;
  }

  async abort(): Promise<void> {
    if (this.#state === "open") this.#holder.claim?.(-this.#position);
    this.#state = "done";
    this.#release();
  }

  #push(piece: Bytes): void {
    if (piece.byteLength === 0) return;
    this.#pieces.push(piece);
    this.#starts.push(this.#position);
    this.#position += piece.byteLength;
  }

  /** Index of the last piece that begins at or before `offset`. */
  #pieceAt(offset: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #release(): void {
    this.#pieces = [];
    this.#starts = [];
  }

  #checkOpen(): void {
    if (this.#state === "done") throw doneError(this.label);
  }
}

function fullError(label: string, maxBytes: number): LimitError {
  const message = `Cannot hold what is written: memory must be <= ${maxBytes} bytes`;
  const hint = "Write to a file, a handle or a stream, or raise the option maxBytes";
  return new LimitError("limit/memory", message, { source: label }, { hint });
}
