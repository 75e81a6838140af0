import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { decodeUtf8 } from "../../base/text.ts";
import type { HttpRequest, HttpResponse } from "../http/transport.ts";
import { s3Address } from "./address.ts";
import { S3Client } from "./client.ts";

const ADDRESS = s3Address("bucket", "key");
const PARTS = [{ number: 1, etag: '"e"', sha256: "c2hh" }];

/** A store that accepts the end of an upload only in its own form, and records the bodies. */
function strictStore(accepts: (body: string) => boolean): { client: S3Client; bodies: string[] } {
  const bodies: string[] = [];
  const transport = {
    conditions: "none" as const,
    async request({ url, body }: HttpRequest): Promise<HttpResponse> {
      const text = decodeUtf8(body ?? new Uint8Array(0)) ?? "";
      bodies.push(text);
      const isFine = accepts(text);
      const reply = isFine
        ? '<CompleteMultipartUploadResult><ETag>"whole-1"</ETag></CompleteMultipartUploadResult>'
        : "<Error><Code>MalformedXML</Code><Message>not our schema</Message></Error>";
      const content = new TextEncoder().encode(reply);
      return {
        status: isFine ? 200 : 400,
        headers: new Headers(),
        url,
        body: (async function* () {
          yield content;
        })(),
        cancel: () => undefined,
      };
    },
  };
  const sha256 = async (bytes: Uint8Array) => new Uint8Array(createHash("sha256").update(bytes).digest());
  const endpoint = { region: "us-east-1", url: "http://127.0.0.1:1", addressing: "path" as const };
  return { client: new S3Client({ endpoint, transport, sha256, retry: { retries: 0 } }), bodies };
}

const finish = (client: S3Client) =>
  client.completeUpload(ADDRESS, { id: "u", parts: PARTS }, { condition: { kind: "absent" } });

test("a store without checksums of parts gets only numbers and tags", async () => {
  const { client, bodies } = strictStore((body) => !body.includes("Checksum"));
  expect(await finish(client)).toEqual({ kind: "written", etag: '"whole-1"' });
  expect(bodies.map((body) => body.includes("<ChecksumSHA256>c2hh</ChecksumSHA256>"))).toEqual([true, false]);
  expect(bodies[1]).toContain("<Part><PartNumber>1</PartNumber><ETag>");
});

test("a store that accepts checksums is asked once", async () => {
  const { client, bodies } = strictStore(() => true);
  await finish(client);
  expect(bodies).toHaveLength(1);
});

test("a refusal in both forms is reported as the store's refusal, not as another writer's object", async () => {
  const { client } = strictStore(() => false);
  await expect(finish(client)).rejects.toMatchObject({ code: "source/s3.refused" });
});

/** A store whose listings never end: a few entries per page, each page with a new token. */
function endlessStore(page: (index: number) => string): { client: S3Client; asked: string[] } {
  const asked: string[] = [];
  const transport = {
    conditions: "none" as const,
    async request({ url, headers }: HttpRequest): Promise<HttpResponse> {
      asked.push(headers["if-match"] ?? url);
      const content = new TextEncoder().encode(page(asked.length));
      return {
        status: 200,
        headers: new Headers({ etag: '"x"' }),
        url,
        body: (async function* () {
          yield content;
        })(),
        cancel: () => undefined,
      };
    },
  };
  const sha256 = async (bytes: Uint8Array) => new Uint8Array(createHash("sha256").update(bytes).digest());
  const endpoint = { region: "us-east-1", url: "http://127.0.0.1:1", addressing: "path" as const };
  return { client: new S3Client({ endpoint, transport, sha256, retry: { retries: 0 } }), asked };
}

test("a listing that never ends and has few entries is given up", async () => {
  const entry = "<Contents><Key>k</Key><Size>1</Size><ETag>e</ETag></Contents>";
  for (const entries of ["", entry]) {
    const next = (index: number) => `<NextContinuationToken>${index}</NextContinuationToken>`;
    const { client, asked } = endlessStore(
      (index) => `<ListBucketResult><IsTruncated>true</IsTruncated>${next(index)}${entries}</ListBucketResult>`,
    );
    await expect(client.list(ADDRESS)).rejects.toMatchObject({ name: "SourceError" });
    expect(asked.length).toBeLessThanOrEqual(101);
  }
});

test("a listing with more text than its entries need is given up after a few pages", async () => {
  const filling = `<Owner>${"x".repeat(1 << 20)}</Owner>`;
  const more = (index: number) =>
    `<IsTruncated>true</IsTruncated><NextContinuationToken>${index}</NextContinuationToken>`;
  const entry = `<Contents><Key>k</Key><Size>1</Size><ETag>e</ETag></Contents>`;
  for (const entries of ["", entry.repeat(12)]) {
    const { client, asked } = endlessStore((index) => `<R>${more(index)}${entries}${filling}</R>`);
    await expect(client.list(ADDRESS)).rejects.toMatchObject({ code: "source/s3.reply" });
    expect(asked.length).toBeLessThanOrEqual(20);
  }
  const parts = endlessStore(
    (index) => `<R><IsTruncated>true</IsTruncated><NextPartNumberMarker>${index}</NextPartNumberMarker>${filling}</R>`,
  );
  await expect(parts.client.listParts(ADDRESS, "u")).rejects.toMatchObject({ code: "source/s3.reply" });
  expect(parts.asked.length).toBeLessThanOrEqual(20);
});

test("a listing of entries with the longest keys has as many pages as it needs", async () => {
  const entry = `<Contents><Key>${"&#x1;".repeat(1024)}</Key><Size>1</Size><ETag>e</ETag></Contents>`.repeat(200);
  const next = (index: number) =>
    index < 20 ? `<IsTruncated>true</IsTruncated><NextContinuationToken>${index}</NextContinuationToken>` : "";
  const { client } = endlessStore((index) => `<R>${next(index)}${entry}</R>`);
  expect((await client.list(ADDRESS)).objects).toHaveLength(4000);
});

test("a list of parts has at most as many as there are numbers", async () => {
  const part = "<Part><PartNumber>1</PartNumber><Size>1</Size><ETag>e</ETag></Part>".repeat(1000);
  const { client, asked } = endlessStore(
    (index) => `<R><IsTruncated>true</IsTruncated><NextPartNumberMarker>${index}</NextPartNumberMarker>${part}</R>`,
  );
  await expect(client.listParts(ADDRESS, "u")).rejects.toMatchObject({ code: "source/s3.reply" });
  expect(asked).toHaveLength(11);
});

test("a reply with a long comment is no reply of a store, whatever asked for it", async () => {
  const { client } = endlessStore(() => `<R><!--${"x".repeat(15 << 20)}--></R>`);
  await expect(client.createUpload(ADDRESS, { writeId: "w" })).rejects.toMatchObject({ code: "source/s3.reply" });
  expect(await client.list(ADDRESS).catch((error: unknown) => error)).toEqual({ objects: [], prefixes: [] });
});

test("a list of parts ends with the highest possible part number", async () => {
  const { client, asked } = endlessStore(
    (index) =>
      `<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>${index * 1000}</NextPartNumberMarker></ListPartsResult>`,
  );
  expect(await client.listParts(ADDRESS, "u")).toEqual([]);
  expect(asked).toHaveLength(11);
});

test("a tag without quotes gets them when it becomes a condition", async () => {
  const { client, asked } = endlessStore(() => "");
  const write = (etag: string) =>
    client.put(ADDRESS, new Uint8Array(1), { condition: { kind: "unchanged", etag }, writeId: "w" });
  await write("abc");
  await write('"abc"');
  expect(asked).toEqual(['"abc"', '"abc"']);
});
