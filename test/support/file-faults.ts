import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";

/** Which call of the file system fails, and with what. */
export interface Fault {
  /** Counted from 1 in the order in which calls are made. */
  readonly at: number;
  readonly errno: string;
}

/** What was called while faults were watched for. */
export interface Calls {
  readonly count: number;
  /** The name of the call that failed, "open /tmp/x/m.gguf"; undefined where none did. */
  readonly failed: string | undefined;
  /** What was opened and not closed, each with where it was opened. */
  readonly open: readonly string[];
}

const SYNC = [
  ..."accessSync appendFileSync chmodSync closeSync copyFileSync existsSync fchmodSync fdatasyncSync fstatSync".split(
    " ",
  ),
  ..."fsyncSync ftruncateSync futimesSync linkSync lstatSync mkdirSync mkdtempSync openSync readFileSync readSync".split(
    " ",
  ),
  ..."readdirSync readlinkSync realpathSync renameSync rmSync rmdirSync statSync symlinkSync unlinkSync".split(" "),
  ..."utimesSync writeFileSync writeSync".split(" "),
];
const ASYNC = [
  ..."access appendFile chmod copyFile link lstat mkdir mkdtemp open readFile readdir readlink realpath rename".split(
    " ",
  ),
  ..."rm rmdir stat statfs symlink truncate unlink utimes writeFile".split(" "),
];
const HANDLE = "chmod datasync read readFile stat sync truncate utimes write writeFile writev".split(" ");

type Call = (...args: unknown[]) => unknown;
type Table = Record<string, Call>;

/**
 * Runs `action` while calls of node:fs, node:fs/promises and of file handles that concern files below `folder` are counted, and
 * the one that `fault` names fails as the system would make it fail. Closing never fails: no file system reports more there
 * than a write that was synced before.
 */
export async function withFaults<T>(
  folder: string,
  fault: Fault | undefined,
  action: () => Promise<T>,
): Promise<{ readonly result: T; readonly calls: Calls }> {
  let count = 0;
  let failed: string | undefined;
  const handles = new Map<number, string>();
  const opened = new Map<{ readonly fd: number } | number, string>();
  /** What the call is about, or undefined where it is none of the command's: Node and vitest read their own files. */
  const subject = (first: unknown): string | undefined => {
    if (typeof first === "number") return handles.get(first);
    if (typeof first !== "string") return undefined;
    const path = resolve(first);
    return path.startsWith(folder) || path.startsWith("/proc/self/fd/") ? path : undefined;
  };
  /** Numbers of descriptors are used again: one that now belongs to another file is forgotten. */
  const note = (descriptor: number, path: unknown): void => {
    const about = subject(path);
    if (about === undefined) handles.delete(descriptor);
    else handles.set(descriptor, about);
  };
  const check = (name: string, about: string | undefined): void => {
    if (about === undefined || ++count !== fault?.at) return;
    failed = `${name} ${about}`;
    const syscall = name.replace(/Sync$/, "");
    const { errno } = fault;
    throw Object.assign(new Error(`${errno}: injected, ${syscall}`), { code: errno, syscall, errno: -1 });
  };
  const restore: (() => void)[] = [];
  const replace = (table: Table, name: string, make: (original: Call) => Call): void => {
    const original = table[name];
    if (original === undefined) return;
    table[name] = make(original);
    restore.push(() => {
      table[name] = original;
    });
  };
  const tables = { sync: fs as unknown as Table, promises: fs.promises as unknown as Table };
  const prototype = await handlePrototype();
  for (const name of SYNC) {
    replace(tables.sync, name, (original) =>
      Object.assign(function (this: unknown, ...args: unknown[]): unknown {
        if (name !== "closeSync" && name !== "existsSync") check(name, subject(args[0]));
        const result = original.apply(this, args);
        if (name === "openSync") {
          note(result as number, args[0]);
          opened.set(result as number, whereOpened(args[0]));
        }
        if (name === "closeSync") {
          handles.delete(args[0] as number);
          opened.delete(args[0] as number);
        }
        return result;
      }, original),
    );
  }
  for (const name of ASYNC) {
    replace(tables.promises, name, (original) => async (...args) => {
      const where = name === "open" ? whereOpened(args[0]) : "";
      check(name, subject(args[0]));
      const result = await original.apply(fs.promises, args);
      if (name === "open") {
        const handle = result as { readonly fd: number };
        note(handle.fd, args[0]);
        opened.set(handle, where);
      }
      return result;
    });
  }
  for (const name of HANDLE) {
    replace(
      prototype,
      name,
      (original) =>
        async function (this: { readonly fd: number }, ...args: unknown[]): Promise<unknown> {
          check(name, handles.get(this.fd));
          return original.apply(this, args);
        },
    );
  }
  syncBuiltinESMExports();
  try {
    const result = await action();
    return { result, calls: { count, failed, open: await stillOpen(opened) } };
  } finally {
    for (const undo of restore) undo();
    syncBuiltinESMExports();
  }
}

function whereOpened(path: unknown): string {
  const own = (new Error().stack ?? "").split("\n").filter((line) => /\/(src|cli)\//.test(line));
  return `${String(path)} ${(own[0] ?? "").trim()}`;
}

/** A handle has no descriptor once it is closed; closing that has begun gets a moment. */
async function stillOpen(opened: ReadonlyMap<{ readonly fd: number } | number, string>): Promise<string[]> {
  const left = (): string[] =>
    [...opened].filter(([one]) => typeof one === "number" || one.fd >= 0).map(([, where]) => where);
  for (let tries = 0; left().length > 0 && tries < 50; tries++) await new Promise((resolve) => setTimeout(resolve, 10));
  return left();
}

async function handlePrototype(): Promise<Table> {
  const path = join(tmpdir(), `tare-handle-${process.pid}-${Math.random()}`);
  const handle = await fs.promises.open(path, "w");
  try {
    return Object.getPrototypeOf(handle) as Table;
  } finally {
    await handle.close();
    await fs.promises.unlink(path);
  }
}

/** Calls by the number of paths that they begin with. */
const FOLDED_SYNC = {
  openSync: 1,
  lstatSync: 1,
  mkdirSync: 1,
  unlinkSync: 1,
  rmdirSync: 1,
  linkSync: 2,
  renameSync: 2,
};
const FOLDED_ASYNC = { open: 1 };
/** Something below a folder that is reached by its descriptor. */
const OPEN_FOLDER = /^\/proc\/self\/fd\/\d+\/./;

/**
 * Runs `action` on a file system that takes names for one where `fold` makes them alike, and keeps the first spelling: what
 * macOS, Windows and folders with `chattr +F` do. Only names below `folder`, or below an open folder, are concerned.
 */
export async function withFoldingNames<T>(
  folder: string,
  fold: (name: string) => string,
  action: () => Promise<T>,
): Promise<T> {
  const list = fs.readdirSync;
  const spelled = (path: unknown): unknown => {
    const concerned = typeof path === "string" && (path.startsWith(`${folder}/`) || OPEN_FOLDER.test(path));
    if (!concerned) return path;
    const above = spelled(dirname(path)) as string;
    const name = basename(path);
    try {
      const names = list(above) as string[];
      return join(above, names.includes(name) ? name : (names.find((one) => fold(one) === fold(name)) ?? name));
    } catch {
      return join(above, name); // no such folder: the call itself tells
    }
  };
  const restore: (() => void)[] = [];
  const wrap = (table: Table, paths: Record<string, number>): void => {
    for (const [name, count] of Object.entries(paths)) {
      const original = table[name] as Call;
      table[name] = Object.assign(
        (...args: unknown[]) => original(...args.slice(0, count).map(spelled), ...args.slice(count)),
        original,
      );
      restore.push(() => {
        table[name] = original;
      });
    }
  };
  wrap(fs as unknown as Table, FOLDED_SYNC);
  wrap(fs.promises as unknown as Table, FOLDED_ASYNC);
  syncBuiltinESMExports();
  try {
    return await action();
  } finally {
    for (const undo of restore) undo();
    syncBuiltinESMExports();
  }
}
