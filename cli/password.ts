import { closeSync, openSync, readSync, statSync } from "node:fs";
import type { Bytes } from "../src/base/bytes.ts";
import { UsageError } from "../src/base/errors.ts";
import { encodeUtf8, printable } from "../src/base/text.ts";
import { fileError } from "../src/platform/node/errors.ts";
import type { Context } from "./context.ts";

/** A password file is a line; more is not read. */
const MAX_BYTES = 64 << 10;

/** "new" for a password that will encrypt: at a prompt it is asked for twice. */
export type PasswordUse = "open" | "new";

/** One answer a run for each file: whoever typed it once is not asked again. */
const answers = new WeakMap<Context, Map<string, Promise<Bytes | undefined>>>();

/**
 * The password from --password-file, TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND, TARE_PASSWORD or a prompt, in this order;
 * undefined where there is none of them. Only a prompt tells files apart. The caller may wipe what it gets.
 */
export async function readPassword(context: Context, label: string, use: PasswordUse): Promise<Bytes | undefined> {
  const known = answers.get(context) ?? new Map<string, Promise<Bytes | undefined>>();
  answers.set(context, known);
  const given = await recall(known, "", () => findPassword(context));
  return (given ?? (await recall(known, label, () => promptTwice(context, label, use))))?.slice();
}

/** The context with this file, or a prompt, as the only place that passwords come from: for a second, other password. */
export function withPasswordFile(context: Context, file: string | undefined): Context {
  const flags = { ...context.flags, "password-file": file };
  return Object.create(context, { flags: { value: flags }, env: { value: {} } });
}

function recall(
  known: Map<string, Promise<Bytes | undefined>>,
  name: string,
  find: () => Promise<Bytes | undefined>,
): Promise<Bytes | undefined> {
  const answer = known.get(name) ?? find();
  known.set(name, answer);
  answer.catch(() => known.delete(name));
  return answer;
}

/** Without asking anybody. */
async function findPassword(context: Context): Promise<Bytes | undefined> {
  const { env, flags } = context;
  const path = flags["password-file"] ?? env["TARE_PASSWORD_FILE"];
  const command = env["TARE_PASSWORD_COMMAND"];
  const direct = env["TARE_PASSWORD"];
  if (path !== undefined && path !== "") return checkPassword(trimNewline(await readPasswordFile(path)), path);
  if (command !== undefined && command !== "") {
    return checkPassword(trimNewline(await runCommand(command, context.signal)), "TARE_PASSWORD_COMMAND");
  }
  return direct === undefined || direct === "" ? undefined : encodeUtf8(direct);
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
  return bytes.slice(0, bytes.at(-2) === 0x0d ? -2 : -1);
}

async function readPasswordFile(path: string): Promise<Bytes> {
  try {
    const buffer = new Uint8Array(MAX_BYTES + 2);
    // Of a file, at once: four calls that other threads do take longer than all else that is done before keys are derived.
    if (path !== "-" && statSync(path).isFile()) return buffer.slice(0, readNow(path, buffer));
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
  if (code === 0) return new Uint8Array(Buffer.concat(pieces));
  const message = `Cannot use TARE_PASSWORD_COMMAND: it must end with 0, found ${code ?? "a signal"}`;
  throw new UsageError("usage/password.source", message, { source: "command line" });
}

async function promptTwice(context: Context, label: string, use: PasswordUse): Promise<Bytes | undefined> {
  if (!process.stdin.isTTY || !context.terminal.errIsTerminal) return undefined;
  const first = await prompt(context, `Password for ${printable(label)}: `);
  if (use === "open") return checkPassword(encodeUtf8(first), "the prompt");
  if (first === (await prompt(context, "The same again: "))) return checkPassword(encodeUtf8(first), "the prompt");
  throw new UsageError("usage/password.source", "Cannot encrypt: the two passwords must be the same", {
    source: "command line",
  });
}

/** Reads a line without showing it. */
function prompt(context: Context, question: string): Promise<string> {
  const { stdin } = process;
  context.terminal.writeErr(question);
  stdin.setRawMode(true);
  stdin.setEncoding("utf8");
  return new Promise((resolve, reject) => {
    let line = "";
    const done = (settle: () => void): void => {
      stdin.off("data", onData);
      stdin.setRawMode(false);
      stdin.pause();
      context.terminal.writeErr("\n");
      settle();
    };
    const onData = (text: string): void => {
      for (const character of text) {
        if (character === "\r" || character === "\n" || character === "\u0004") {
          done(() => resolve(line));
          return;
        }
        // In raw mode Ctrl-C is a character like any other.
        if (character === "\u0003") {
          done(() => reject(new DOMException("Interrupted", "AbortError")));
          return;
        }
        if (character === "\u007f" || character === "\b") line = [...line].slice(0, -1).join("");
        else if (character >= " ") line += character;
      }
    };
    stdin.on("data", onData);
    stdin.resume();
  });
}
