import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import type { Source } from "./source.ts";

/**
 * Where a writer's bytes go. Nothing is visible at the destination before `commit()`; `abort()`, or a
 * process that dies, leaves what was there before. Every implementation passes test/contracts/sink-contract.ts.
 */
export interface Sink {
  /** Shown in errors and progress, never parsed. */
  readonly label: string;
  /** Bytes appended or reserved so far: where the next append will land. */
  readonly position: number;
  /**
   * Appends at `position`, which moves at once: appends may be issued before earlier ones have settled
   * and land in call order. The caller leaves `bytes` untouched until the promise settles.
   */
  append(bytes: Bytes): Promise<void>;
  /**
   * Leaves room for bytes that are known only later, zero until filled; returns where the room begins.
   * Absent if the destination cannot go back.
   */
  reserve?(byteLength: number): number;
  /** Overwrites reserved or appended bytes at `offset`. Present if and only if `reserve` is. */
  fill?(offset: number, bytes: Bytes): Promise<void>;
  /**
   * The bytes written so far, to be checked before they are made visible. Close it before committing. Absent if the
   * destination cannot be read back.
   */
  reopen?(): Promise<Source>;
  /** Waits for every append, makes the bytes durable, then visible under the final name, all or nothing. */
  commit(): Promise<void>;
  /** Drops everything. Allowed at any time before `commit` has resolved, and twice. */
  abort(): Promise<void>;
}

/** Opens Sinks by relative name, for formats that write one file or a set of them. */
export interface Output {
  /** Shown in errors and progress: the path or URL the user named. */
  readonly label: string;
  /** The file name the user asked for ("model.gguf"): sets derive the names of their parts from it. */
  readonly name: string;
  /** `name` is relative, with forward slashes, and stays below the output's root. */
  create(name: string): Promise<Sink>;
  /**
   * The file that has this name already, so that a writer can continue where an earlier run ended; undefined if there
   * is none. The caller closes it. Absent if the destination cannot be read.
   */
  peek?(name: string): Promise<Source | undefined>;
  /** Puts a small file in place atomically, and replaces any file of that name: a writer's notes for its next run. */
  replace?(name: string, bytes: Bytes): Promise<void>;
  /** Removes a file that was committed; does nothing if there is none. */
  remove?(name: string): Promise<void>;
}

/** The same output with other sinks. A caller's output may be of any class, so its methods run on it. */
export function withSinks(output: Output, create: Output["create"], name: string = output.name): Output {
  const { label, peek, replace, remove } = output;
  return {
    label,
    name,
    create,
    ...(peek && { peek: (fileName) => peek.call(output, fileName) }),
    ...(replace && { replace: (fileName, bytes) => replace.call(output, fileName, bytes) }),
    ...(remove && { remove: (fileName) => remove.call(output, fileName) }),
  };
}

/** The same sink, which does some of its work in another way. */
export function alteredSink(sink: Sink, own: Partial<Pick<Sink, "append" | "commit">>): Sink {
  // Sinks have private fields, so their methods must run on the sink itself, not on the proxy.
  return new Proxy(sink, {
    get: (target, key) => {
      const value: unknown = Object.hasOwn(own, key) ? Reflect.get(own, key) : Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Refuses a use of a Sink after commit or abort. */
export function doneError(label: string): UsageError {
  return new UsageError("usage/sink.done", "Cannot write: the sink is committed or aborted already", { source: label });
}

/** Refuses to replace a file or an object, or to write twice to one name of an output. */
export function existsError(name: string, source: string = name): UsageError {
  const hint = "Choose another name, or pass the option force";
  return new UsageError("usage/exists", `Cannot write "${name}": it exists already`, { source }, { hint });
}

/** Refuses to reserve anything but a whole number of bytes. */
export function checkReserve(byteLength: number, label: string): void {
  if (Number.isSafeInteger(byteLength) && byteLength >= 0) return;
  const message = `Cannot reserve ${byteLength} bytes: must be a whole number >= 0`;
  throw new UsageError("usage/sink.range", message, { source: label });
}

/** Refuses to fill bytes that were neither reserved nor appended. */
export function checkFill(offset: number, byteLength: number, sink: Pick<Sink, "label" | "position">): void {
  const fine = Number.isSafeInteger(offset) && offset >= 0 && offset <= sink.position - byteLength;
  if (fine) return;
  const message = `Cannot fill ${byteLength} bytes at ${offset}: must end at or before ${sink.position}`;
  throw new UsageError("usage/sink.range", message, { source: sink.label });
}

interface SpoolOptions {
  /** Shown in errors: what the bytes are a copy of. */
  readonly label: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Copies bytes to a place where they need no memory, and returns them as a Source: for bytes that must be seen whole
 * before any of them may be handed out. The caller that supplied the spool frees the copies when the container is
 * closed.
 */
export type Spool = (pieces: AsyncIterable<Bytes>, options: SpoolOptions) => Promise<Source>;
