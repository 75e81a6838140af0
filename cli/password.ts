import { closeSync, openSync, readSync, statSync } from "node:fs";
import { type Bytes, equalBytes } from "../src/base/bytes.ts";
import { UsageError } from "../src/base/errors.ts";
import { encodeUtf8, printable } from "../src/base/text.ts";
import { fileError } from "../src/platform/node/errors.ts";
import { findPasswordFault, secureRandom, wipe } from "../src/primitives/crypto/secrets.ts";
import type { Context } from "./context.ts";

/** A password file is a line; more is not read. */
const MAX_BYTES = 64 << 10;

/** "new" for a password that will encrypt: at a prompt it is asked for twice. */
export type PasswordUse = "open" | "new";

/**
 * One answer a run for each place that cannot be asked twice: whoever typed it once is not asked again. It is kept under a
 * mask; a password in a file is read again instead.
 */
const answers = new WeakMap<Context, Map<string, Promise<MaskedSecret | undefined>>>();

/**
 * The password from --password-file, TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND, TARE_PASSWORD or a prompt, in this order;
 * undefined where there is none of them. Only a prompt tells files apart. The caller may wipe what it gets.
 */
export async function readPassword(context: Context, label: string, use: PasswordUse): Promise<Bytes | undefined> {
  const password =
    (await givenPassword(context)) ?? (await recall(context, label, () => promptTwice(context, label, use)));
  const fault = password === undefined || use === "open" ? undefined : findPasswordFault(password);
  if (fault === undefined) return password;
  wipe(password);
  throw new UsageError("usage/password.source", `Cannot use the new password: ${fault}`, { source: label });
}

/** The context with this file, or a prompt, as the only place that passwords come from: for a second, other password. */
export function withPasswordFile(context: Context, file: string | undefined): Context {
  const flags = { ...context.flags, "password-file": file };
  return Object.create(context, { flags: { value: flags }, env: { value: {} } });
}

/** Asks once a run, and gives a copy each time. */
async function recall(
  context: Context,
  name: string,
  find: () => Promise<Bytes | undefined>,
): Promise<Bytes | undefined> {
  const known = answers.get(context) ?? new Map<string, Promise<MaskedSecret | undefined>>();
  answers.set(context, known);
  const answer =
    known.get(name) ?? find().then((secret) => (secret === undefined ? undefined : new MaskedSecret(secret)));
  known.set(name, answer);
  answer.catch(() => known.delete(name));
  return (await answer)?.copy();
}

/** A secret that is needed again: it does not stand in memory as it is. */
class MaskedSecret {
  readonly #masked: Bytes;
  readonly #mask: Bytes;

  /** Takes the secret over, and wipes it. */
  constructor(secret: Bytes) {
    this.#mask = secureRandom(secret.byteLength);
    this.#masked = secret.map((byte, i) => byte ^ (this.#mask[i] as number));
    wipe(secret);
  }

  copy(): Bytes {
    return this.#masked.map((byte, i) => byte ^ (this.#mask[i] as number));
  }
}

/** Without asking anybody. */
async function givenPassword(context: Context): Promise<Bytes | undefined> {
  const { env, flags } = context;
  const path = flags["password-file"] ?? env["TARE_PASSWORD_FILE"];
  const command = env["TARE_PASSWORD_COMMAND"];
  const direct = env["TARE_PASSWORD"];
  if (path !== undefined && path !== "") {
    const read = async (): Promise<Bytes> => checkPassword(trimNewline(await readPasswordFile(path)), path);
    return isFile(path) ? read() : recall(context, "", read);
  }
  if (command !== undefined && command !== "") {
    return recall(context, "", async () =>
      checkPassword(trimNewline(await runCommand(command, context.signal)), "TARE_PASSWORD_COMMAND"),
    );
  }
  return direct === undefined || direct === "" ? undefined : encodeUtf8(direct);
}

/** One that can be read again; a pipe, as in --password-file <(command), cannot. */
function isFile(path: string): boolean {
  try {
    return path !== "-" && statSync(path).isFile();
  } catch {
    return false; // reading tells why
  }
}

function checkPassword(password: Bytes, origin: string): Bytes {
  if (password.byteLength > 0 && password.byteLength <= MAX_BYTES) return password;
  const problem = password.byteLength === 0 ? "it is empty" : `it must be at most ${MAX_BYTES} bytes`;
  throw new UsageError("usage/password.source", `Cannot use the password from ${origin}: ${problem}`, {
    source: "command line",
  });
}

/** Editors and `echo` end a file with a newline; one is no part of the password. */
function trimNewline(bytes: Bytes): Bytes {
  if (bytes.at(-1) !== 0x0a) return bytes;
  const trimmed = bytes.slice(0, bytes.at(-2) === 0x0d ? -2 : -1);
  wipe(bytes);
  return trimmed;
}

async function readPasswordFile(path: string): Promise<Bytes> {
  const buffer = new Uint8Array(MAX_BYTES + 2);
  try {
    // Of a file, at once: four calls that other threads do take longer than all else that is done before keys are derived.
    if (isFile(path)) return buffer.slice(0, readNow(path, buffer));
    const { open } = await import("node:fs/promises");
    const handle = await open(path === "-" ? "/dev/stdin" : path);
    try {
      let length = 0;
      // A pipe, as in --password-file <(command), comes in pieces.
      for (let bytesRead = -1; bytesRead !== 0 && length < buffer.byteLength; length += bytesRead) {
        ({ bytesRead } = await handle.read(buffer, length, buffer.byteLength - length, null));
      }
      return buffer.slice(0, length);
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fileError(error, `Cannot read the password file "${path}"`, { source: path });
  } finally {
    wipe(buffer);
  }
}

function readNow(path: string, buffer: Bytes): number {
  const file = openSync(path, "r");
  try {
    return readSync(file, buffer);
  } finally {
    closeSync(file);
  }
}

/** By the shell, as git and ssh run theirs; what it says on standard error is shown. */
async function runCommand(command: string, signal: AbortSignal): Promise<Bytes> {
  const { spawn } = await import("node:child_process");
  const child = spawn(command, { shell: true, stdio: ["inherit", "pipe", "inherit"], signal });
  const pieces: Uint8Array[] = [];
  let length = 0;
  child.stdout.on("data", (piece: Uint8Array) => {
    length += piece.byteLength;
    if (length <= MAX_BYTES + 2) pieces.push(piece);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  const password = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    password.set(piece, at);
    at += piece.byteLength;
    piece.fill(0);
  }
  if (code === 0) return password;
  wipe(password);
  const message = `Cannot use TARE_PASSWORD_COMMAND: it must end with 0, found ${code ?? "a signal"}`;
  throw new UsageError("usage/password.source", message, { source: "command line" });
}

async function promptTwice(context: Context, label: string, use: PasswordUse): Promise<Bytes | undefined> {
  if (!process.stdin.isTTY || !context.terminal.errIsTerminal) return undefined;
  const first = await prompt(context, `Password for ${printable(label)}: `);
  if (use === "open") return checkPassword(first, "the prompt");
  const second = await prompt(context, "The same again: ");
  const isSame = equalBytes(first, second);
  wipe(second);
  if (isSame) return checkPassword(first, "the prompt");
  wipe(first);
  throw new UsageError("usage/password.source", "Cannot encrypt: the two passwords must be the same", {
    source: "command line",
  });
}

/** Reads a line without showing it, as bytes: text could not be wiped. */
function prompt(context: Context, question: string): Promise<Bytes> {
  const { stdin } = process;
  // First, so that nothing shows of what is typed ahead of the question.
  stdin.setRawMode(true);
  context.terminal.writeErr(question);
  return new Promise((resolve, reject) => {
    const line = new TypedLine();
    const done = (settle: () => void): void => {
      stdin.off("data", onData);
      stdin.setRawMode(false);
      stdin.pause();
      context.terminal.writeErr("\n");
      settle();
    };
    const onData = (typed: Buffer): void => {
      const end = line.take(typed);
      typed.fill(0);
      if (end === "entered") done(() => resolve(line.bytes()));
      else if (end === "interrupted") {
        line.wipe();
        done(() => reject(new DOMException("Interrupted", "AbortError")));
      }
    };
    stdin.on("data", onData);
    stdin.resume();
  });
}

/** What was typed at a prompt so far. */
export class TypedLine {
  readonly #buffer = new Uint8Array(MAX_BYTES + 1);
  #length = 0;

  /** Takes what was typed next; says where that ended the line. What does not fit is one byte more than a password may have. */
  take(typed: Uint8Array): "entered" | "interrupted" | undefined {
    for (const byte of typed) {
      if (byte === 0x0d || byte === 0x0a || byte === 0x04) return "entered";
      // In raw mode Ctrl-C is a character like any other.
      if (byte === 0x03) return "interrupted";
      if (byte === 0x7f || byte === 0x08) this.#dropCharacter();
      else if (byte >= 0x20 && this.#length < this.#buffer.byteLength) this.#buffer[this.#length++] = byte;
    }
    return undefined;
  }

  /** The line; it is gone from here. */
  bytes(): Bytes {
    const line = this.#buffer.slice(0, this.#length);
    this.wipe();
    return line;
  }

  wipe(): void {
    wipe(this.#buffer);
    this.#length = 0;
  }

  /** With all bytes of its UTF-8. */
  #dropCharacter(): void {
    while (this.#length > 0) {
      const byte = this.#buffer[--this.#length] as number;
      if ((byte & 0xc0) !== 0x80) return;
    }
  }
}
