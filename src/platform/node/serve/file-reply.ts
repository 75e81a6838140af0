import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { extname } from "node:path";
import { EMPTY_BYTES } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { FileBody, FilePart } from "./file-body.ts";
import { formatHttpDate, isRangeFresh, judgePreconditions } from "./preconditions.ts";
import { type Reply, textReply } from "./reply.ts";
import type { ServedFile } from "./trees/tree.ts";

export interface FileRequest {
  readonly method: "GET" | "HEAD";
  readonly headers: IncomingHttpHeaders;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** The reply of RFC 9110 to a GET or HEAD of this file. Pure: it reads nothing. */
export function fileReply(file: ServedFile, { method, headers, now }: FileRequest): Reply {
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

function wholeReply(file: ServedFile, validators: OutgoingHttpHeaders): Reply {
  const { byteLength } = file;
  const parts = byteLength === 0 ? [] : [{ prefix: EMPTY_BYTES, offset: 0, byteLength }];
  return { status: 200, headers: { ...validators, ...contentHeaders(file) }, body: fileBody(file, parts) };
}

function rangedReply(file: ServedFile, header: string, validators: OutgoingHttpHeaders): Reply {
  const verdict = judgeRange(header, file.byteLength);
  if (verdict.kind === "whole") return wholeReply(file, validators);
  if (verdict.kind === "unsatisfiable") {
    const range = { "content-range": `bytes */${file.byteLength}` };
    return textReply(416, `The file has ${file.byteLength} bytes`, { ...validators, ...range });
  }
  const [range, ...others] = verdict.ranges;
  if (range === undefined || others.length > 0) return multipartReply(file, verdict.ranges, validators);
  const headers = { ...validators, ...contentHeaders(file), "content-range": contentRange(file, range) };
  return { status: 206, headers, body: fileBody(file, [partOf(range)]) };
}

/** RFC 9110 §15.3.7.2: each part with its own Content-Type and Content-Range, none on the reply itself. */
function multipartReply(file: ServedFile, ranges: readonly ByteRange[], validators: OutgoingHttpHeaders): Reply {
  const boundary = randomBytes(18).toString("hex");
  const type = mediaTypeOf(file.name);
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

function contentHeaders(file: ServedFile): OutgoingHttpHeaders {
  // A file that a browser shows must not run anything here, no matter what it contains.
  return { "content-type": mediaTypeOf(file.name), "content-security-policy": "sandbox; default-src 'none'" };
}

function contentRange(file: ServedFile, { first, last }: ByteRange): string {
  return `bytes ${first}-${last}/${file.byteLength}`;
}

function partOf({ first, last }: ByteRange): FilePart {
  return { prefix: EMPTY_BYTES, offset: first, byteLength: last - first + 1 };
}

function fileBody(file: ServedFile, parts: readonly FilePart[]): FileBody {
  return { content: file.content(), parts, suffix: EMPTY_BYTES };
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
export function mediaTypeOf(name: string): string {
  const extension = extname(name).toLowerCase();
  return (Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined) ?? "application/octet-stream";
}

/** Positions are inclusive, as on the wire. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

export type RangeVerdict =
  | { readonly kind: "whole" }
  | { readonly kind: "ranges"; readonly ranges: readonly ByteRange[] }
  | { readonly kind: "unsatisfiable" };

/** A request with more ranges gets the whole file: RFC 9110 §14.2 warns of many small ranges. */
const MAX_RANGES = 32;

const WHOLE: RangeVerdict = { kind: "whole" };
const UNSATISFIABLE: RangeVerdict = { kind: "unsatisfiable" };

/**
 * What a Range header asks of a file of this length (RFC 9110 §14.1.2, §14.2). Units other than bytes are ignored. A
 * malformed set is unsatisfiable: its sender does not expect the whole of a large file.
 */
export function judgeRange(header: string, byteLength: number): RangeVerdict {
  const match = /^\s*([!#$%&'*+.^_`|~0-9a-z-]+)=(.*)$/i.exec(header);
  if (match === null || match[1]?.toLowerCase() !== "bytes") return WHOLE;
  // Empty elements of a list are allowed (RFC 9110 §5.6.1.2).
  const specs = (match[2] ?? "").split(",").flatMap((spec) => spec.trim() || []);
  if (specs.length === 0) return UNSATISFIABLE;
  if (specs.length > MAX_RANGES) return WHOLE;
  const ranges: ByteRange[] = [];
  for (const spec of specs) {
    const range = resolveSpec(spec, byteLength);
    if (range === "malformed") return UNSATISFIABLE;
    if (range === "empty") return WHOLE;
    if (range !== undefined) ranges.push(range);
  }
  if (ranges.length === 0) return UNSATISFIABLE;
  const total = ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  // Overlapping ranges must not make a reply longer than the file.
  return total > byteLength && ranges.length > 1 ? WHOLE : { kind: "ranges", ranges };
}

/** Undefined if the range starts after the end. Numbers too long for a double only grow, and are cut to the length. */
function resolveSpec(spec: string, byteLength: number): ByteRange | "malformed" | "empty" | undefined {
  const match = /^(\d*)-(\d*)$/.exec(spec);
  const [, from = "", to = ""] = match ?? [];
  if (from === "" && to === "") return "malformed";
  if (from === "") {
    const suffix = Number(to);
    if (suffix === 0) return undefined;
    // Satisfiable by definition, but Content-Range cannot express an empty range.
    if (byteLength === 0) return "empty";
    return { first: Math.max(0, byteLength - suffix), last: byteLength - 1 };
  }
  const first = Number(from);
  const last = to === "" ? Number.POSITIVE_INFINITY : Number(to);
  if (last < first) return "malformed";
  return first < byteLength ? { first, last: Math.min(last, byteLength - 1) } : undefined;
}
