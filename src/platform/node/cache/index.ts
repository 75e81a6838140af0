import { checkOptions, type OptionRules, type Size, sizeIn, sizeRule, switchRule } from "../../../api/options.ts";
import type { Finding } from "../../../model/finding.ts";
import { cacheLimit } from "../host.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { cacheFolder, type OnRefused } from "./folder.ts";
import { type PruneResult, pruneCache } from "./prune.ts";
import { type CachedFile, listCache, verifyCache } from "./report.ts";

/** What `tare cache list --json` prints. */
export interface CacheListResult {
  readonly path: string;
  /** Bytes on disk. */
  readonly byteLength: number;
  /** Bytes that the cache may hold. */
  readonly maxBytes: number;
  readonly files: readonly CachedFile[];
}

/** What `tare cache verify --json` prints. */
export interface CacheVerifyResult {
  readonly ok: boolean;
  readonly path: string;
  readonly checked: { readonly entries: number; readonly bytes: number };
  readonly findings: readonly Finding[];
  /** Damaged entries that were removed. */
  readonly removed: number;
}

/** What `tare cache prune --json` and `tare cache clear --json` print. */
export interface CachePruneResult extends PruneResult {
  readonly path: string;
  readonly dryRun: boolean;
}

/** Options of `cache.verify`: the command's flags. */
export interface CacheVerifyOptions {
  /** Removes what is damaged. */
  readonly fix?: boolean | undefined;
}

/** Options of `cache.clear`: the command's flags. */
export interface CacheClearOptions {
  /** Removes nothing. */
  readonly dryRun?: boolean | undefined;
}

/** Options of `cache.prune`: the command's flags. */
export interface CachePruneOptions extends CacheClearOptions {
  /** How much may stay; as much as the cache may hold if absent. */
  readonly maxSize?: Size | undefined;
}

const CLEAR_RULES: OptionRules = { dryRun: switchRule };
const PRUNE_RULES: OptionRules = { ...CLEAR_RULES, maxSize: sizeRule };

/** What the command line adds to a call. */
export interface CacheCall {
  /** `process.env` if absent. */
  readonly env?: Environment | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Told of each folder that is left alone, and why. */
  readonly onRefused?: OnRefused | undefined;
}

/** The cached files, the one used last first. */
export async function list({ env = process.env, onRefused }: CacheCall = {}): Promise<CacheListResult> {
  const path = cacheFolder(env);
  const files = await listCache(path, onRefused);
  const byteLength = files.reduce((sum, file) => sum + file.byteLength, 0);
  return { path, byteLength, maxBytes: cacheLimit(env), files };
}

/** Reads every entry and compares every checksum. */
export async function verify(options: CacheVerifyOptions = {}, call: CacheCall = {}): Promise<CacheVerifyResult> {
  checkOptions("cache.verify", options, { fix: switchRule });
  const { env = process.env, signal, onRefused } = call;
  const path = cacheFolder(env);
  const damaged = options.fix === true ? "remove" : "keep";
  const { entries, bytes, findings, removed } = await verifyCache(path, {
    damaged,
    signal,
    ...(onRefused === undefined ? {} : { onRefused }),
  });
  return { ok: findings.length === 0, path, checked: { entries, bytes }, findings, removed };
}

/** Removes what was used longest ago. */
export async function prune(options: CachePruneOptions = {}, call: CacheCall = {}): Promise<CachePruneResult> {
  checkOptions("cache.prune", options, PRUNE_RULES);
  return removeDownTo(sizeIn(options.maxSize) ?? cacheLimit(call.env ?? process.env), options, call);
}

/** Removes everything. */
export async function clear(options: CacheClearOptions = {}, call: CacheCall = {}): Promise<CachePruneResult> {
  checkOptions("cache.clear", options, CLEAR_RULES);
  return removeDownTo(0, options, call);
}

async function removeDownTo(
  maxBytes: number,
  { dryRun = false }: CacheClearOptions,
  { env = process.env, onRefused }: CacheCall,
): Promise<CachePruneResult> {
  const path = cacheFolder(env);
  const result = await pruneCache(path, maxBytes, {
    mode: dryRun ? "plan" : "remove",
    ...(onRefused === undefined ? {} : { onRefused }),
  });
  return { path, dryRun, ...result };
}

/** Where the cache is. */
export async function path({ env = process.env }: CacheCall = {}): Promise<{ readonly path: string }> {
  return { path: cacheFolder(env) };
}
