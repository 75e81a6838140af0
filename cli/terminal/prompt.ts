import type { Bytes } from "../../src/base/bytes.ts";
import { wipe } from "../../src/primitives/crypto/secrets.ts";
import type { Terminal } from "./terminal.ts";

/** One byte more than a password may have, so that a longer one is noticed. */
const LINE_BYTES = (64 << 10) + 1;

/** What asking needs of a command's context. */
export interface PromptContext {
  readonly signal: AbortSignal;
  readonly terminal: Pick<Terminal, "writeErr">;
}

/**
 * A terminal that shows nothing of what is typed, from the first question to the last. A line that was typed before its
 * question shows is the answer to it.
 */
export interface QuietTerminal {
  /** Reads a line, as bytes: text could not be wiped. */
  ask(question: string): Promise<Bytes>;
  /** The terminal shows again what is typed. May be called more than once. */
  end(): void;
}

/** Lines as they are typed, with the keys by which a user edits the last one. */
export class TypedLines {
  readonly #line = new Uint8Array(LINE_BYTES);
  #length = 0;
  #lines: Bytes[] = [];
  #last = 0;

  /** Takes what was typed next. Keeps of each line at most one byte more than a password may have. */
  add(piece: Uint8Array): "interrupted" | undefined {
    for (const byte of piece) {
      const before = this.#last;
      this.#last = byte;
      switch (byte) {
        case 0x03: // Ctrl-C drops what was typed before, as it does where lines are shown.
          this.wipe();
          return "interrupted";
        case 0x0a:
          if (before !== 0x0d) this.#endLine(); // pasted text can have both
          break;
        case 0x0d:
        case 0x04: // Ctrl-D
          this.#endLine();
          break;
        case 0x15: // Ctrl-U
          this.#clearLine();
          break;
        case 0x7f:
        case 0x08:
          this.#dropCharacter();
          break;
        default:
          if (byte >= 0x20 && this.#length < LINE_BYTES) this.#line[this.#length++] = byte;
      }
    }
    return undefined;
  }

  /** The next whole line, which is then the caller's; undefined if there is none yet. */
  next(): Bytes | undefined {
    return this.#lines.shift();
  }

  wipe(): void {
    for (const line of this.#lines) wipe(line);
    this.#lines = [];
    this.#clearLine();
  }

  #endLine(): void {
    this.#lines.push(this.#line.slice(0, this.#length));
    this.#clearLine();
  }

  #clearLine(): void {
    wipe(this.#line);
    this.#length = 0;
  }

  /** Removes all bytes of its UTF-8. */
  #dropCharacter(): void {
    while (this.#length > 0) {
      const byte = this.#line[--this.#length] as number;
      if ((byte & 0xc0) !== 0x80) return;
    }
  }
}

/** What was typed and not asked for yet. It stays for the next question, also of a later password. */
const typed = { lines: new TypedLines(), users: 0, onChange: (): void => undefined };

/** Makes the terminal quiet; nothing that is typed from here on shows. */
export function quietTerminal({ signal, terminal }: PromptContext): QuietTerminal {
  listen();
  let isOpen = true;
  return {
    async ask(question) {
      terminal.writeErr(question);
      try {
        return await nextLine(signal);
      } finally {
        terminal.writeErr("\n");
      }
    },
    end() {
      if (isOpen) stopListening();
      isOpen = false;
    },
  };
}

function listen(): void {
  const { stdin } = process;
  if (typed.users++ > 0) return;
  stdin.setRawMode(true);
  stdin.on("data", onData);
  stdin.resume();
}

function stopListening(): void {
  const { stdin } = process;
  if (--typed.users > 0) return;
  stdin.off("data", onData);
  stdin.setRawMode(false);
  stdin.pause();
}

function onData(piece: Buffer): void {
  const end = typed.lines.add(piece);
  piece.fill(0);
  // A quiet terminal makes no signal of Ctrl-C.
  if (end === "interrupted") process.emit("SIGINT", "SIGINT");
  typed.onChange();
}

function nextLine(signal: AbortSignal): Promise<Bytes> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      const line = signal.aborted ? undefined : typed.lines.next();
      if (line === undefined && !signal.aborted) return;
      typed.onChange = () => undefined;
      signal.removeEventListener("abort", look);
      if (line !== undefined) resolve(line);
      else {
        typed.lines.wipe();
        reject(signal.reason);
      }
    };
    typed.onChange = look;
    signal.addEventListener("abort", look);
    look();
  });
}
