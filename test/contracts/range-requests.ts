/**
 * Requests for one file of a range server and what RFC 9110 wants answered, as a table that our server and others
 * are held against. The file has 1000 bytes and was last modified at MODIFIED.
 */
export const MODIFIED = "Tue, 02 Jan 2024 03:04:05 GMT";
export const MODIFIED_SECONDS = 1_704_164_645;
export const FILE_BYTES = 1000;

export interface RangeRequest {
  readonly title: string;
  /** GET where absent. */
  readonly method?: "GET" | "HEAD";
  /** "/data.bin" where absent. */
  readonly path?: string;
  /** ETAG stands for the tag that the server gives to the file. */
  readonly headers: Readonly<Record<string, string>>;
  readonly status: number;
  readonly contentRange?: string;
  readonly contentLength?: string;
  /** Bytes of the file that the body is, first and behind the last. */
  readonly body?: readonly [number, number];
  /** Why another server may well answer otherwise. */
  readonly choice?: string;
}

const WHOLE = { status: 200, contentLength: "1000", body: [0, 1000] } as const;
const UNSATISFIABLE = { status: 416, contentRange: "bytes */1000" } as const;
const FIRST_TEN = { status: 206, contentRange: "bytes 0-9/1000", contentLength: "10", body: [0, 10] } as const;
const EARLIER = "Tue, 02 Jan 2024 03:04:04 GMT";
const LATER = "Tue, 02 Jan 2024 03:04:06 GMT";

export const RANGE_REQUESTS: readonly RangeRequest[] = [
  { title: "the whole file", headers: {}, ...WHOLE },
  { title: "HEAD", method: "HEAD", headers: {}, status: 200, contentLength: "1000" },
  {
    title: "HEAD ignores Range",
    method: "HEAD",
    headers: { range: "bytes=0-9" },
    status: 200,
    contentLength: "1000",
    choice: "RFC 9110 §14.2 defines Range for GET alone; nginx answers HEAD with 206",
  },
  { title: "a range", headers: { range: "bytes=0-9" }, ...FIRST_TEN },
  { title: "the unit in capitals", headers: { range: "Bytes=0-9" }, ...FIRST_TEN },
  {
    title: "one byte in the middle",
    headers: { range: "bytes=500-500" },
    status: 206,
    contentRange: "bytes 500-500/1000",
    contentLength: "1",
    body: [500, 501],
  },
  {
    title: "an open end",
    headers: { range: "bytes=990-" },
    status: 206,
    contentRange: "bytes 990-999/1000",
    contentLength: "10",
    body: [990, 1000],
  },
  {
    title: "everything, as a range",
    headers: { range: "bytes=0-" },
    status: 206,
    contentRange: "bytes 0-999/1000",
    contentLength: "1000",
    body: [0, 1000],
  },
  {
    title: "an end behind the last byte",
    headers: { range: "bytes=995-5000" },
    status: 206,
    contentRange: "bytes 995-999/1000",
    contentLength: "5",
    body: [995, 1000],
  },
  {
    title: "a suffix",
    headers: { range: "bytes=-5" },
    status: 206,
    contentRange: "bytes 995-999/1000",
    contentLength: "5",
    body: [995, 1000],
  },
  {
    title: "a suffix longer than the file",
    headers: { range: "bytes=-5000" },
    status: 206,
    contentRange: "bytes 0-999/1000",
    contentLength: "1000",
    body: [0, 1000],
  },
  { title: "a suffix of nothing", headers: { range: "bytes=-0" }, ...UNSATISFIABLE },
  { title: "a start at the end", headers: { range: "bytes=1000-" }, ...UNSATISFIABLE },
  {
    title: "a start beyond every number",
    headers: { range: "bytes=99999999999999999999-" },
    ...UNSATISFIABLE,
  },
  { title: "a range backwards", headers: { range: "bytes=9-5" }, ...UNSATISFIABLE },
  { title: "words for a range", headers: { range: "bytes=a-b" }, ...UNSATISFIABLE },
  {
    title: "no range at all",
    headers: { range: "bytes=" },
    ...UNSATISFIABLE,
    choice: "RFC 9110 §14.2 lets a malformed range be refused or ignored",
  },
  { title: "another unit", headers: { range: "lines=0-9" }, ...WHOLE },
  {
    title: "two ranges of which one is behind the end",
    headers: { range: "bytes=0-9,5000-" },
    ...FIRST_TEN,
  },
  { title: "two ranges behind the end", headers: { range: "bytes=2000-2001,5000-" }, ...UNSATISFIABLE },
  { title: "ranges longer together than the file", headers: { range: "bytes=0-998,0-998" }, ...WHOLE },
  { title: "If-Range with the tag", headers: { range: "bytes=0-9", "if-range": "ETAG" }, ...FIRST_TEN },
  { title: "If-Range with another tag", headers: { range: "bytes=0-9", "if-range": '"other"' }, ...WHOLE },
  { title: "If-Range with the tag made weak", headers: { range: "bytes=0-9", "if-range": "W/ETAG" }, ...WHOLE },
  { title: "If-Range with the date", headers: { range: "bytes=0-9", "if-range": MODIFIED }, ...FIRST_TEN },
  { title: "If-Range with an earlier date", headers: { range: "bytes=0-9", "if-range": EARLIER }, ...WHOLE },
  { title: "If-Range with a later date", headers: { range: "bytes=0-9", "if-range": LATER }, ...WHOLE },
  {
    title: "If-Range that fails before an impossible range",
    headers: { range: "bytes=2000-", "if-range": '"other"' },
    ...WHOLE,
  },
  { title: "If-None-Match with the tag", headers: { "if-none-match": "ETAG" }, status: 304 },
  { title: "If-None-Match with the tag among others", headers: { "if-none-match": '"a", W/ETAG, "b"' }, status: 304 },
  { title: "If-None-Match with any", headers: { "if-none-match": "*" }, status: 304 },
  { title: "If-None-Match with another tag", headers: { "if-none-match": '"other"' }, ...WHOLE },
  { title: "If-None-Match on HEAD", method: "HEAD", headers: { "if-none-match": "ETAG" }, status: 304 },
  {
    title: "If-None-Match counts before If-Modified-Since",
    headers: { "if-none-match": '"other"', "if-modified-since": MODIFIED },
    ...WHOLE,
  },
  { title: "If-Modified-Since the date", headers: { "if-modified-since": MODIFIED }, status: 304 },
  { title: "If-Modified-Since an earlier date", headers: { "if-modified-since": EARLIER }, ...WHOLE },
  {
    title: "If-Modified-Since a later date",
    headers: { "if-modified-since": LATER },
    status: 304,
    choice: "nginx by default answers 304 only to exactly its own date",
  },
  { title: "If-Modified-Since with no date", headers: { "if-modified-since": "yesterday" }, ...WHOLE },
  { title: "If-Match with the tag", headers: { "if-match": "ETAG" }, ...WHOLE },
  { title: "If-Match with any", headers: { "if-match": "*" }, ...WHOLE },
  { title: "If-Match with another tag", headers: { "if-match": '"other"' }, status: 412 },
  { title: "If-Match with the tag made weak", headers: { "if-match": "W/ETAG" }, status: 412 },
  { title: "If-Match and a range", headers: { "if-match": "ETAG", range: "bytes=0-9" }, ...FIRST_TEN },
  { title: "If-Unmodified-Since the date", headers: { "if-unmodified-since": MODIFIED }, ...WHOLE },
  { title: "If-Unmodified-Since an earlier date", headers: { "if-unmodified-since": EARLIER }, status: 412 },
  { title: "an empty file", path: "/empty.bin", headers: {}, status: 200, contentLength: "0", body: [0, 0] },
  {
    title: "a range of an empty file",
    path: "/empty.bin",
    headers: { range: "bytes=0-9" },
    status: 416,
    contentRange: "bytes */0",
    choice: "RFC 9110 §14.1.2: no first position lies inside nothing; nginx ignores ranges of empty files",
  },
  {
    title: "a suffix of an empty file",
    path: "/empty.bin",
    headers: { range: "bytes=-5" },
    status: 200,
    contentLength: "0",
    body: [0, 0],
    choice: "a suffix is satisfiable by definition (RFC 9110 §14.1.2), but Content-Range cannot spell it",
  },
  { title: "a query is no part of the name", path: "/data.bin?x=1", headers: {}, ...WHOLE },
  { title: "slashes in a row", path: "//data.bin", headers: {}, ...WHOLE },
  { title: "an encoded name", path: "/%64ata.bin", headers: {}, ...WHOLE },
  { title: "nothing there", path: "/nothing.bin", headers: {}, status: 404 },
  { title: "an encoded parent", path: "/%2e%2e/%2e%2e/etc/passwd", headers: {}, status: 400 },
  { title: "a plain parent", path: "/../../etc/passwd", headers: {}, status: 400 },
  { title: "a NUL", path: "/data.bin%00", headers: {}, status: 400 },
  { title: "a folder without its slash", path: "/folder", headers: {}, status: 301 },
];
