import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { decodeHex } from "../../base/hex.ts";
import { isPowerOfTwo } from "../../base/integers.ts";
import type { WriteHashes, WriteOptions } from "../../model/format.ts";
import type { OriginFacts } from "../../model/origin.ts";
import { AERO_LIMITS } from "./limits.ts";

/** What a write is to be like: the caller's wishes, else what the file was like before, else the defaults. */
export interface AeroOptions {
  readonly uuid: Bytes;
  /** Tensors begin on file offsets that are multiples of this. */
  readonly align: number;
  readonly maxShardBytes: number;
  /** Tensors per shard of the file this was, where the caller asks for no other cut. */
  readonly shardCounts: readonly number[] | undefined;
  readonly pageBytes: number | undefined;
  readonly tensorHashes: "tensors" | undefined;
  readonly controlHash: "control" | undefined;
}

/** A cache line, and what vector instructions like; costs at most 63 bytes a tensor. */
const DEFAULT_ALIGN = 64;
/** Two of the largest pages in use (2 MiB) and more; a larger gap is a mistake. */
const MAX_ALIGN = 1 << 24;
/** The reference writer's default (formats/aero.md 1.7). */
const DEFAULT_SHARD_BYTES = 2 ** 31;
const UUID_BYTES = 16;
/** A page is held in memory until it has been checked: what our own reader accepts. */
const MAX_PAGE_BYTES = AERO_LIMITS.verifyBytes.default;

/** Refuses what makes no sense with a UsageError. A random `uuid` is the only thing here that differs between calls. */
export function resolveOptions(options: WriteOptions, facts: OriginFacts): AeroOptions {
  checkWishes(options);
  const { uuid, align, pageBytes, shardCounts, hashes } = parseFacts(facts);
  const wanted = options.hashes ?? hashes;
  return {
    uuid: options.uuid ?? uuid ?? randomUuid(),
    align: options.align ?? align ?? DEFAULT_ALIGN,
    maxShardBytes: options.maxShardBytes ?? DEFAULT_SHARD_BYTES,
    shardCounts: options.maxShardBytes === undefined ? shardCounts : undefined,
    pageBytes: options.hashes === undefined ? pageBytes : options.hashes.pageBytes,
    tensorHashes: wanted.tensors,
    controlHash: wanted.control,
  };
}

function checkWishes({ align, maxShardBytes, hashes, uuid }: WriteOptions): void {
  if (align !== undefined && !isAlignment(align)) {
    const message = `Cannot align AERO tensors to ${align} bytes: must be a power of two from 1 to ${MAX_ALIGN}`;
    throw new UsageError("usage/aero.align", message, { source: "align" });
  }
  if (maxShardBytes !== undefined && !isSize(maxShardBytes)) {
    const message = `Cannot fill shards up to ${maxShardBytes} bytes: must be a whole number above 0`;
    throw new UsageError("usage/aero.shard-size", message, { source: "shard size" });
  }
  const pageBytes = hashes?.pageBytes;
  if (pageBytes !== undefined && !isPageSize(pageBytes)) {
    const message = `Cannot hash pages of ${pageBytes} bytes: must be a whole number from 1 to ${MAX_PAGE_BYTES}`;
    throw new UsageError("usage/aero.page-size", message, { source: "page size" });
  }
  if (uuid !== undefined && uuid.byteLength !== UUID_BYTES) {
    const message = `Cannot use a uuid of ${uuid.byteLength} bytes: must be ${UUID_BYTES}`;
    throw new UsageError("usage/aero.uuid", message, { source: "uuid" });
  }
}

function isAlignment(value: unknown): value is number {
  return isSize(value) && isPowerOfTwo(value) && value <= MAX_ALIGN;
}

function isPageSize(value: unknown): value is number {
  return isSize(value) && value <= MAX_PAGE_BYTES;
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

/** Version 4 in RFC 9562's byte order. */
function randomUuid(): Bytes {
  const uuid = crypto.getRandomValues(new Uint8Array(UUID_BYTES));
  uuid[6] = ((uuid[6] as number) & 0x0f) | 0x40;
  uuid[8] = ((uuid[8] as number) & 0x3f) | 0x80;
  return uuid;
}

interface Facts {
  readonly uuid: Bytes | undefined;
  readonly align: number | undefined;
  readonly pageBytes: number | undefined;
  readonly shardCounts: readonly number[] | undefined;
  readonly hashes: WriteHashes;
}

/** Facts come from a file: whatever is not as `describeAero` writes it is as if it were not there. */
function parseFacts(facts: OriginFacts): Facts {
  const { uuid, align, pageBytes, shards, tensorHashes, controlHash } = facts;
  const bytes = typeof uuid === "string" ? decodeHex(uuid) : undefined;
  return {
    uuid: bytes?.byteLength === UUID_BYTES ? bytes : undefined,
    align: isAlignment(align) ? align : undefined,
    pageBytes: isPageSize(pageBytes) ? pageBytes : undefined,
    shardCounts: Array.isArray(shards) && shards.every(isSize) ? shards : undefined,
    hashes: {
      tensors: tensorHashes === true ? "tensors" : undefined,
      control: controlHash === true ? "control" : undefined,
    },
  };
}
