import type { SpawnSyncReturns } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { type Bytes, equalBytes } from "../../src/base/bytes.ts";
import { UsageError } from "../../src/base/errors.ts";
import { encodeUtf8, printable } from "../../src/base/text.ts";
import { namedFileError } from "../../src/platform/node/folders.ts";
import { findPasswordFault, secureRandom, wipe } from "../../src/primitives/crypto/secrets.ts";
import type { Context } from "../context.ts";
import { type QuietTerminal, quietTerminal } from "./prompt.ts";

/** A password file is one line; more is not read. */
const MAX_BYTES = 64 << 10;

/** What finding a password needs of a command's context. */
export interface PasswordContext extends Pick<Context, "env" | "signal"> {
  readonly flags: { readonly "password-file"?: readonly string[] | undefined };
  readonly terminal: Pick<Context["terminal"], "errIsTerminal" | "writeErr">;
}

/** What a password is for. */
export interface PasswordNeed {
  /** "new" for a password that will encrypt: a prompt asks for it twice. */
  readonly use: "open" | "new";
  /** Throws if a new password cannot be used, before it must be typed again. */
  readonly check?: ((password: Bytes) => void) | undefined;
}

/**
 * Answers of this run that cannot be asked for twice: a user types a password only once. They are kept under a mask; a
 * password in a file is read again instead.
 */
const answers = new WeakMap<PasswordContext, Map<string, Promise<MaskedSecret | undefined>>>();

/**
 * The password from --password-file, TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND, TARE_PASSWORD or a prompt, in this
 * order; undefined if there is none. Only a prompt distinguishes files. The caller may wipe the result.
 */
export async function readPassword(
  context: PasswordContext,
  label: string,
  need: PasswordNeed,
): Promise<Bytes | undefined> {
  const check = (password: Bytes): void => checkNew(password, label, need);
  const password =
    (await givenPassword(context, levelOf(context, label))) ??
    (await recall(context, label, () => promptTwice(context, label, { use: need.use, check })));
  if (password !== undefined) check(password);
  return password;
}

function checkNew(password: Bytes, label: string, { use, check }: PasswordNeed): void {
  if (use === "open") return;
  try {
    const fault = findPasswordFault(password);
    if (fault !== undefined)
      throw new UsageError("usage/password.source", `Cannot use the new password: ${fault}`, { source: label });
    check?.(password);
  } catch (error) {
    wipe(password);
    throw error;
  }
}

/** This file, or a prompt, as the only source of passwords: for a second, different password. */
export function withPasswordFile({ signal, terminal }: PasswordContext, file: string | undefined): PasswordContext {
  return { flags: { "password-file": file === undefined ? [] : [file] }, env: {}, signal, terminal };
}

/** Asks once a run, and returns a copy each time. */
async function recall(
  context: PasswordContext,
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

/** A secret that is needed again; it is not in memory as plain bytes. */
class MaskedSecret {
  readonly #masked: Bytes;
  readonly #mask: Bytes;

  /** Takes over the secret and wipes the original. */
  constructor(secret: Bytes) {
    this.#mask = secureRandom(secret.byteLength);
    this.#masked = secret.map((byte, i) => byte ^ (this.#mask[i] as number));
    wipe(secret);
  }

  copy(): Bytes {
    return this.#masked.map((byte, i) => byte ^ (this.#mask[i] as number));
  }
}

/** What asked for a password in this run, by label: the label of what is inside another one begins with that one's. */
const asked = new WeakMap<PasswordContext, Map<string, number>>();

/** How many encrypted files a file is in: levels without encryption never ask. */
function levelOf(context: PasswordContext, label: string): number {
  const levels = asked.get(context) ?? new Map<string, number>();
  asked.set(context, levels);
  const level = [...levels.keys()].filter((outer) => label.startsWith(`${outer}::`)).length;
  levels.set(label, level);
  return level;
}

/** Refuses a password that no level took: its user expects another nesting than there is. */
export function checkPasswordsTaken(context: PasswordContext): void {
  const files = context.flags["password-file"] ?? [];
  const taken = 1 + Math.max(-1, ...(asked.get(context)?.values() ?? []));
  if (files.length < 2 || taken >= files.length) return;
  const message = `Cannot use ${files.length} passwords: ${taken === 1 ? "only one level is" : `${taken} levels are`} encrypted`;
  const hint = "Give one password for each encrypted level, outermost first; the last one holds for all deeper levels";
  throw new UsageError("usage/password.unused", message, { source: printable(files[taken] as string) }, { hint });
}

/** The password from flags or environment, without a prompt. The last file holds for all deeper levels. */
async function givenPassword(context: PasswordContext, level: number): Promise<Bytes | undefined> {
  const { env, flags } = context;
  const files = flags["password-file"] ?? [];
  const path = files[Math.min(level, files.length - 1)] ?? env["TARE_PASSWORD_FILE"];
  const command = env["TARE_PASSWORD_COMMAND"];
  const direct = env["TARE_PASSWORD"];
  if (path !== undefined && path !== "") {
    const read = async (): Promise<Bytes> => checkPassword(trimNewline(await readPasswordFile(path)), path);
    return isFile(path) ? read() : recall(context, `\0${path}`, read);
  }
  if (command !== undefined && command !== "") {
    return recall(context, "", async () =>
      checkPassword(trimNewline(await runCommand(command, context.signal)), "TARE_PASSWORD_COMMAND"),
    );
  }
  return direct === undefined || direct === "" ? undefined : encodeUtf8(direct);
}

/** True for a file that can be read again; a pipe, as in --password-file <(command), cannot. */
function isFile(path: string): boolean {
  try {
    return path !== "-" && statSync(path).isFile();
  } catch {
    return false; // reading reports why
  }
}

function checkPassword(password: Bytes, origin: string): Bytes {
  if (password.byteLength > 0 && password.byteLength <= MAX_BYTES) return password;
  const problem = password.byteLength === 0 ? "it is empty" : `it must be at most ${MAX_BYTES} bytes`;
  throw new UsageError("usage/password.source", `Cannot use the password from ${origin}: ${problem}`, {
    source: "command line",
  });
}

/** Editors and `echo` end a file with a newline, which is not part of the password. */
function trimNewline(bytes: Bytes): Bytes {
  if (bytes.at(-1) !== 0x0a) return bytes;
  const trimmed = bytes.slice(0, bytes.at(-2) === 0x0d ? -2 : -1);
  wipe(bytes);
  return trimmed;
}

async function readPasswordFile(path: string): Promise<Bytes> {
  const buffer = new Uint8Array(MAX_BYTES + 2);
  try {
    // A file is read synchronously: four calls on other threads take longer than everything else before key derivation.
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
    throw namedFileError(error, `Cannot read the password file "${path}"`, { source: path });
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

/** Runs the command by the shell, as git and ssh do; its standard error is shown. */
async function runCommand(command: string, signal: AbortSignal): Promise<Bytes> {
  const { spawn, spawnSync } = await import("node:child_process");
  const listProcesses: ListProcesses = () => spawnSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" });
  signal.throwIfAborted();
  const child = spawn(command, { shell: true, stdio: ["inherit", "pipe", "inherit"] });
  const pieces: Uint8Array[] = [];
  let length = 0;
  child.stdout.on("data", (piece: Uint8Array) => {
    length += piece.byteLength;
    if (length <= MAX_BYTES + 2) pieces.push(piece);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    const end = (): void => {
      if (child.pid !== undefined) endTree(child.pid, listProcesses);
      reject(signal.reason);
    };
    signal.addEventListener("abort", end, { once: true });
    child.on("error", reject);
    child.on("close", (ended) => {
      signal.removeEventListener("abort", end);
      resolve(ended);
    });
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

/** A line for each process: its number, and that of the one that started it. */
type ListProcesses = () => Pick<SpawnSyncReturns<string>, "stdout">;

/**
 * Ends a command with everything that it started: the shell does not end its programs. A process group of their own would
 * make that one call, but a program outside the group of the terminal cannot ask there.
 */
function endTree(root: number, list: ListProcesses): void {
  const started = findStarted(list);
  const tree = [root];
  // Grows while it is read: programs of programs.
  for (const pid of tree) tree.push(...(started.get(pid) ?? []));
  for (const pid of tree) {
    try {
      process.kill(pid, "SIGTERM");
    } catch {
      // It has ended, or runs as another user.
    }
  }
}

/** The running processes by the one that started them. */
function findStarted(list: ListProcesses): ReadonlyMap<number, readonly number[]> {
  // BusyBox has another ps; macOS has no /proc.
  const lines =
    process.platform === "linux" ? readdirSync("/proc").flatMap(parentLine) : (list().stdout ?? "").split("\n");
  const started = new Map<number, number[]>();
  for (const line of lines) {
    const [pid = 0, parent = 0] = line.trim().split(/\s+/).map(Number);
    started.set(parent, [...(started.get(parent) ?? []), pid]);
  }
  return started;
}

/** "pid ppid" of a folder of /proc; empty if it is none of a process, or of one that has ended. */
function parentLine(pid: string): readonly string[] {
  if (!/^\d+$/.test(pid)) return [];
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The program's name is in brackets and may have any characters; the state and the parent follow it.
    return [`${pid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]}`];
  } catch {
    return [];
  }
}

/** True if someone can be asked. */
export function canAsk({ terminal }: Pick<PasswordContext, "terminal">): boolean {
  return process.stdin.isTTY && terminal.errIsTerminal;
}

async function promptTwice(
  context: PasswordContext,
  label: string,
  { use, check }: PasswordNeed,
): Promise<Bytes | undefined> {
  if (!canAsk(context)) return undefined;
  const quiet = quietTerminal(context);
  try {
    const first = checkPassword(await quiet.ask(`Password for ${printable(label)}: `), "the prompt");
    if (use === "open") return first;
    return await repeated(first, quiet, check);
  } finally {
    quiet.end();
  }
}

/** Asks for a new password again. One that is refused need not be typed twice. */
async function repeated(first: Bytes, quiet: QuietTerminal, check: PasswordNeed["check"]): Promise<Bytes> {
  try {
    check?.(first);
    const second = await quiet.ask("The same again: ");
    const isSame = equalBytes(first, second);
    wipe(second);
    if (isSame) return first;
  } catch (error) {
    wipe(first);
    throw error;
  }
  wipe(first);
  throw new UsageError("usage/password.source", "Cannot encrypt: the two passwords must be the same", {
    source: "command line",
  });
}
