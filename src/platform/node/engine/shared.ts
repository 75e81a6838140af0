import type { CommonOptions } from "../../../api/options.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { nodeEngine } from "./engine.ts";

/** One engine of a kind for all calls of the process: its idle threads do not keep the process alive. */
const shared = new Map<string, Promise<Engine>>();

/**
 * The engine that the options name, else the fastest one. What a call has opened goes on using it, so no call closes it:
 * calls that name the same one share it, with its threads.
 */
export async function sharedEngine({ engine = "auto", concurrency }: CommonOptions): Promise<Engine> {
  if (typeof engine === "object") return engine;
  const kind = `${engine} ${concurrency ?? "default"}`;
  const known = shared.get(kind);
  if (known !== undefined) return known;
  const made = nodeEngine({ tier: engine, ...(concurrency === undefined ? {} : { workers: concurrency }) });
  shared.set(kind, made);
  // A part that is missing now may be there at the next call.
  made.catch(() => shared.delete(kind));
  return made;
}
