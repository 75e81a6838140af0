import { UsageError } from "../../base/errors.ts";
import type { WriteOptions } from "../../model/format.ts";
import { type AeroOptions, resolveOptions } from "../aero/plan.ts";
import type { SetCache } from "./index-file.ts";
import type { SetFacts } from "./plan-facts.ts";

/** What the files of a set are to be like. */
export interface SetOptions {
  /** For every part; the index takes of it what applies to a file without weights. */
  readonly aero: AeroOptions;
  readonly maxPartShards: number;
  /** Tensors per shard and shards per part of the set this was, where the caller asks for no other cut. */
  readonly cut: { readonly shards: readonly number[]; readonly parts: readonly number[] } | undefined;
  readonly baseUrl: string | undefined;
  /** Hints that the set had before. */
  readonly cache: SetCache | undefined;
  /** A uuid that nobody asked for may be swapped for the one of an interrupted run. */
  readonly uuid: "given" | "random";
}

/** The reference writer's default (formats/aero.md 3.1): with shards of 2 GiB, parts of 8 GiB. */
const DEFAULT_PART_SHARDS = 4;
/** The page of AIP-0002. */
const DEFAULT_PAGE_BYTES = 4 << 20;

/** Refuses what makes no sense with a UsageError. All hashes are always on: remote reads rely on them. */
export function resolveSetOptions(options: WriteOptions, facts?: SetFacts): SetOptions {
  const { maxPartShards = DEFAULT_PART_SHARDS, baseUrl } = options;
  if (!Number.isSafeInteger(maxPartShards) || maxPartShards < 1) {
    const message = `Cannot put ${maxPartShards} shards into a part: must be a whole number above 0`;
    throw new UsageError("usage/aeroset.part-shards", message, { source: "shards of a part" });
  }
  if (baseUrl !== undefined) checkBaseUrl(baseUrl);
  const { pageBytes = DEFAULT_PAGE_BYTES, control = "control" } = options.hashes ?? {};
  const hashes = { pageBytes, tensors: "tensors" as const, control };
  const { uuid = facts?.uuid, align = facts?.align } = options;
  return {
    aero: resolveOptions({ ...options, uuid, align, hashes }, {}),
    maxPartShards,
    cut: cutOf(options, facts),
    baseUrl,
    cache: facts?.cache,
    uuid: uuid === undefined ? "random" : "given",
  };
}

function cutOf({ maxShardBytes, maxPartShards }: WriteOptions, facts: SetFacts | undefined): SetOptions["cut"] {
  const { shards, parts } = facts ?? {};
  const isAsked = maxShardBytes !== undefined || maxPartShards !== undefined;
  return isAsked || shards === undefined || parts === undefined ? undefined : { shards, parts };
}

/** The address goes into a file that is published: it must be one that readers can add a name to, without secrets. */
function checkBaseUrl(text: string): void {
  const fault = findUrlFault(text);
  if (fault === undefined) return;
  const message = `Cannot publish a set under this base URL: ${fault}`;
  throw new UsageError("usage/aeroset.base-url", message, { source: "base URL" });
}

function findUrlFault(text: string): string | undefined {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return "it must be a full address";
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return "it must begin with http:// or https://";
  if (url.username !== "" || url.password !== "") return "it must not hold a user name or password";
  if (text.includes("?") || text.includes("#")) return "it must not hold a query or a fragment";
  return undefined;
}
