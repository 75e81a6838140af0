import type { StoredObject } from "./s3-server.ts";

/** The documents of the store that tests run against: made and read without any code of tare. */

export interface ListQuery {
  readonly prefix: string;
  readonly delimiter: string;
  /** Entries up to and including this one were on earlier pages. */
  readonly after: string;
}

/** Few, so that listings of a few objects have pages. */
const PAGE = 3;

export function errorXml(code: string, extra: string): string {
  const message = `Text of ${code} &amp; &lt;more&gt;`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message>${extra}</Error>`;
}

export function listXml(objects: ReadonlyMap<string, StoredObject>, { prefix, delimiter, after }: ListQuery): string {
  const entries = new Map<string, string>();
  for (const [key, { bytes, etag }] of [...objects].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!key.startsWith(prefix)) continue;
    const cut = delimiter === "" ? -1 : key.indexOf(delimiter, prefix.length);
    const name = cut < 0 ? key : key.slice(0, cut + 1);
    const folder = `<CommonPrefixes><Prefix>${encodeText(name)}</Prefix></CommonPrefixes>`;
    const file = `<Contents><Key>${encodeText(name)}</Key><Size>${bytes.byteLength}</Size><ETag>${encodeText(etag)}</ETag></Contents>`;
    entries.set(name, cut < 0 ? file : folder);
  }
  const rest = [...entries].filter(([name]) => name > after);
  const page = rest.slice(0, PAGE);
  const isTruncated = rest.length > PAGE;
  const token = isTruncated
    ? `<NextContinuationToken>${encodeText(page.at(-1)?.[0] ?? "")}</NextContinuationToken>`
    : "";
  const rows = page.map(([, xml]) => xml).join("");
  return `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>${isTruncated}</IsTruncated>${rows}${token}</ListBucketResult>`;
}

export function partsXml(
  parts: ReadonlyMap<number, { readonly bytes: Buffer; readonly etag: string }>,
  after: number,
): string {
  const rest = [...parts].filter(([number]) => number > after).sort(([a], [b]) => a - b);
  const page = rest.slice(0, PAGE);
  const rows = page.map(
    ([number, { bytes, etag }]) =>
      `<Part><PartNumber>${number}</PartNumber><ETag>${encodeText(etag)}</ETag><Size>${bytes.byteLength}</Size></Part>`,
  );
  const next = `<NextPartNumberMarker>${page.at(-1)?.[0] ?? 0}</NextPartNumberMarker>`;
  return `<ListPartsResult><IsTruncated>${rest.length > PAGE}</IsTruncated>${next}${rows.join("")}</ListPartsResult>`;
}

/** What the body of CompleteMultipartUpload asks for, in its order. */
export function decodePartNumbers(
  xml: string,
): { readonly number: number; readonly etag: string; readonly sha256: string | undefined }[] {
  return [...xml.matchAll(/<Part>(.*?)<\/Part>/gs)].map(([, part = ""]) => ({
    number: Number(/<PartNumber>(\d+)</.exec(part)?.[1]),
    etag: decodeText(/<ETag>([^<]*)</.exec(part)?.[1] ?? ""),
    sha256: decodeIfAny(/<ChecksumSHA256>([^<]*)</.exec(part)?.[1]),
  }));
}

function decodeIfAny(text: string | undefined): string | undefined {
  return text === undefined ? undefined : decodeText(text);
}

function encodeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

function decodeText(text: string): string {
  return text.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))).replaceAll("&quot;", '"');
}
