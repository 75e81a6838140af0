/// <reference lib="esnext.disposable" preserve="true" />
import { blobSource as openBlob } from "./blob.ts";
import { type HttpOptions, openHttp } from "./http/index.ts";
import { withCache as cached } from "./layers/cache.ts";
import { withCoalescing as coalesced } from "./layers/coalesce.ts";
import { withHedging as hedged } from "./layers/hedge.ts";
import { withParallelStreams as parallel } from "./layers/parallel.ts";
import { withRetries as retried } from "./layers/retry.ts";
import { memorySource as openMemory } from "./memory.ts";
import { openS3, type S3Address, type S3Client, type S3OpenOptions } from "./s3/open.ts";
import { sliceSource as slice } from "./slice.ts";
import { disposable, type OpenSource, type Source } from "./source.ts";

/** `tare/bytes`: sources and sinks, for those who build on them. */

export type { Bytes } from "../base/bytes.ts";
export type { BatchOptions } from "./extents.ts";
export type { DirectoryHandle, FileHandle } from "./handles/handle.ts";
export { fileHandleSink } from "./handles/outputs.ts";
export type { HeaderReader } from "./http/headers.ts";
export { type HttpOptions, type HttpTransport, httpResolver } from "./http/index.ts";
export type { HttpMethod, HttpRequest, HttpResponse } from "./http/transport.ts";
export type { AllowedOrigins, HttpResolverOptions, OpenUrl } from "./http/url.ts";
export type { CacheOptions } from "./layers/cache.ts";
export type { CoalescingOptions } from "./layers/coalesce.ts";
export type { HedgeOptions } from "./layers/hedge.ts";
export type { Clock, Pace, Progress } from "./layers/hedge-stream.ts";
export type { ParallelOptions } from "./layers/parallel.ts";
export type { RetryPolicy } from "./layers/retry.ts";

import { layeredStore, type RangeStore } from "./layers/store.ts";

export {
  type LayeredStore,
  memoryStore,
  type RangeStore,
  type StoredFile,
  type StoredVersion,
} from "./layers/store.ts";
export type { StreamBufferOptions, StreamBuffers } from "./layers/stream-buffers.ts";
export { type MemorySink, memorySink } from "./memory.ts";
export type { PinnedFile, ResolveOptions, Resolver } from "./resolver.ts";
export type { S3CallOptions, S3Condition, S3Head, S3Listing, S3Outcome, S3WriteOptions } from "./s3/client.ts";
export type { S3Overwrite } from "./s3/commit.ts";
export type { S3ListedPart, S3Object, S3Part } from "./s3/documents.ts";
export type { S3Refusal } from "./s3/errors.ts";
export {
  fetchS3Client as s3Client,
  parseS3Address,
  type S3Address,
  type S3Client,
  type S3ClientOptions,
  type S3Endpoint,
  type S3OpenOptions,
  type S3SinkOptions,
  s3Resolver,
  s3Sink,
} from "./s3/open.ts";
export type { S3Reply, S3Request, S3Session, S3SessionOptions, S3Settings } from "./s3/session.ts";
export type { SignableRequest, SigningOptions } from "./s3/sigv4.ts";
export { type Credentials, type PresignOptions, type Sha256, SigV4 } from "./s3/sigv4.ts";
export type { Output as Folder, Sink } from "./sink.ts";
export type { OpenSource, ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";
export { streamSink } from "./stream.ts";

/** Bytes that are already here. Reads without `into` are views, not copies. */
export function memorySource(bytes: Uint8Array, label?: string): OpenSource {
  return disposable(openMemory(bytes, label));
}

/** A Blob, or the File that a user picked or dropped. Its bytes are read when asked for. */
export function blobSource(blob: Blob, label?: string): OpenSource {
  return disposable(openBlob(blob, label));
}

/** A run of another source. Closing it does nothing: the caller that opened the whole closes that. */
export function sliceSource(of: Source, offset: number, byteLength: number, label?: string): OpenSource {
  return disposable(slice(of, offset, byteLength, label));
}

/**
 * A file on a web server, read by ranges: one request gets its length and its first bytes together. If the file changes,
 * reads fail with `source/http.changed`.
 */
export async function httpSource(url: string | URL, options?: HttpSourceOptions): Promise<OpenSource> {
  return disposable(await openHttp(String(url), layered(options)));
}

/** An object of an object store: ranges over signed requests. */
export async function s3Source(client: S3Client, address: S3Address, options?: S3SourceOptions): Promise<OpenSource> {
  return disposable(await openS3(client, address, layered(options)));
}

/** Keeps blocks that were read, in bounded memory. */
export const withCache = decorator(cached);
/** Merges reads of neighbours that are asked for at the same time. */
export const withCoalescing = decorator(coalesced);
/** Asks again, beside a request that is slower than usual. */
export const withHedging = decorator(hedged);
/** Reads a stream by several requests at a time. */
export const withParallelStreams = decorator(parallel);
/** Repeats reads that failed for a passing reason. */
export const withRetries = decorator(retried);

function decorator<A extends readonly unknown[]>(
  decorate: (source: Source, ...options: A) => Source,
): (source: Source, ...options: A) => OpenSource {
  return (source, ...options) => disposable(decorate(source, ...options));
}

/** Any store will do. */
export type HttpSourceOptions = Omit<HttpOptions, "store"> & { readonly store?: RangeStore | undefined };
export type S3SourceOptions = Omit<S3OpenOptions, "store"> & { readonly store?: RangeStore | undefined };

function layered<T extends { readonly store?: RangeStore | undefined }>(options: T | undefined) {
  const { store, ...rest } = options ?? ({} as T);
  return { ...rest, store: store && layeredStore(store) };
}
