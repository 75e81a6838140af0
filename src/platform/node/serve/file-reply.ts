import { randomBytes } from "node:crypto";
import type { BigIntStats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { basename, extname } from "node:path";
import { EMPTY_BYTES } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { type ByteRange, judgeRange } from "./byte-ranges.ts";
import type { FileBody, FilePart } from "./file-body.ts";
import { formatHttpDate, isRangeFresh, judgePreconditions, type Version } from "./preconditions.ts";
import { type Reply, textReply } from "./reply.ts";

/** A file that is open and whose version is known. */
export interface OpenedFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly stats: BigIntStats;
  readonly version: Version;
}

export interface FileRequest {
  readonly method: "GET" | "HEAD";
  readonly headers: IncomingHttpHeaders;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** The reply of RFC 9110 to a GET or HEAD of this file. Pure: it reads nothing. */
export function fileReply(file: OpenedFile, { method, headers, now }: FileRequest): Reply {
  const { version } = file;
  const validators: OutgoingHttpHeaders = {
    "accept-ranges": "bytes",
    etag: version.etag,
    "last-modified": formatHttpDate(version.modified),
    // Clients may keep the file but must ask each time: it may be replaced at any moment.
    "cache-control": "no-cache",
  };
  const verdict = judgePreconditions(headers, version, now);
  if (verdict === "failed") return textReply(412, "The file is not the version that was asked for", validators);
  if (verdict === "not-modified") return { status: 304, headers: validators, body: undefined };
  // Range is defined for GET alone (RFC 9110 §14.2).
  const isRanged = method === "GET" && headers.range !== undefined && isRangeFresh(firstOf(headers), version, now);
  return isRanged ? rangedReply(file, headers.range ?? "", validators) : wholeReply(file, validators);
}

function firstOf(headers: IncomingHttpHeaders): string | undefined {
  const condition = headers["if-range"];
  return Array.isArray(condition) ? condition[0] : condition;
}

function wholeReply(file: OpenedFile, validators: OutgoingHttpHeaders): Reply {
  const byteLength = lengthOf(file);
  const parts = byteLength === 0 ? [] : [{ prefix: EMPTY_BYTES, offset: 0, byteLength }];
  return { status: 200, headers: { ...validators, ...contentHeaders(file) }, body: fileBody(file, parts) };
}

function rangedReply(file: OpenedFile, header: string, validators: OutgoingHttpHeaders): Reply {
  const verdict = judgeRange(header, lengthOf(file));
  if (verdict.kind === "whole") return wholeReply(file, validators);
  if (verdict.kind === "unsatisfiable") {
    const range = { "content-range": `bytes */${lengthOf(file)}` };
    return textReply(416, `The file has ${lengthOf(file)} bytes`, { ...validators, ...range });
  }
  const [range, ...others] = verdict.ranges;
  if (range === undefined || others.length > 0) return multipartReply(file, verdict.ranges, validators);
  const headers = { ...validators, ...contentHeaders(file), "content-range": contentRange(file, range) };
  return { status: 206, headers, body: fileBody(file, [partOf(range)]) };
}

/** RFC 9110 §15.3.7.2: each part with its own Content-Type and Content-Range, none on the reply itself. */
function multipartReply(file: OpenedFile, ranges: readonly ByteRange[], validators: OutgoingHttpHeaders): Reply {
  const boundary = randomBytes(18).toString("hex");
  const type = mediaTypeOf(file.path);
  const parts = ranges.map((range, i) => {
    const lines = [`--${boundary}`, `Content-Type: ${type}`, `Content-Range: ${contentRange(file, range)}`, "", ""];
    return { ...partOf(range), prefix: encodeUtf8((i === 0 ? "" : "\r\n") + lines.join("\r\n")) };
  });
  const headers = {
    ...validators,
    ...contentHeaders(file),
    "content-type": `multipart/byteranges; boundary=${boundary}`,
  };
  return { status: 206, headers, body: { ...fileBody(file, parts), suffix: encodeUtf8(`\r\n--${boundary}--\r\n`) } };
}

function contentHeaders(file: OpenedFile): OutgoingHttpHeaders {
  // A file that a browser shows must not run anything here, no matter what it contains.
  return { "content-type": mediaTypeOf(file.path), "content-security-policy": "sandbox; default-src 'none'" };
}

function contentRange(file: OpenedFile, { first, last }: ByteRange): string {
  return `bytes ${first}-${last}/${lengthOf(file)}`;
}

function partOf({ first, last }: ByteRange): FilePart {
  return { prefix: EMPTY_BYTES, offset: first, byteLength: last - first + 1 };
}

function fileBody(file: OpenedFile, parts: readonly FilePart[]): FileBody {
  const { handle, stats, path } = file;
  return { label: basename(path), handle, stats, parts, suffix: EMPTY_BYTES };
}

// File systems stop at 2^63 - 1, JavaScript at 2^53 - 1: no disk holds the difference.
function lengthOf({ stats }: OpenedFile): number {
  return Number(stats.size);
}

const TEXT = "text/plain; charset=utf-8";

/**
 * Files here are data, never pages: everything that a browser would run (HTML, SVG, scripts) is sent as text. Weights
 * have no registered types.
 */
const TYPES: Readonly<Record<string, string>> = {
  ".json": "application/json",
  ".jsonl": TEXT,
  ".txt": TEXT,
  ".md": TEXT,
  ".csv": TEXT,
  ".yaml": TEXT,
  ".yml": TEXT,
  ".toml": TEXT,
  ".py": TEXT,
  ".js": TEXT,
  ".mjs": TEXT,
  ".html": TEXT,
  ".htm": TEXT,
  ".svg": TEXT,
  ".xml": TEXT,
  ".jinja": TEXT,
  ".pem": TEXT,
  ".sig": TEXT,
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
  ".pdf": "application/pdf",
  ".zip": "application/zip",
  ".wasm": "application/wasm",
};

/** By extension, in any case. */
function mediaTypeOf(name: string): string {
  const extension = extname(name).toLowerCase();
  return (Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined) ?? "application/octet-stream";
}
