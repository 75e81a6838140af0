import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { decodeUtf8 } from "../base/text.ts";
import type { HttpRequest, HttpResponse } from "./http-transport.ts";
import { s3Address } from "./s3-address.ts";
import { S3Client } from "./s3-client.ts";

const ADDRESS = s3Address("bucket", "key");
const PARTS = [{ number: 1, etag: '"e"', sha256: "c2hh" }];

/** A store that takes the end of an upload only as its schema has it, and keeps what it was sent. */
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

test("a store that knows no checksums of parts is told the numbers and tags alone", async () => {
  const { client, bodies } = strictStore((body) => !body.includes("Checksum"));
  expect(await finish(client)).toEqual({ kind: "written", etag: '"whole-1"' });
  expect(bodies.map((body) => body.includes("<ChecksumSHA256>c2hh</ChecksumSHA256>"))).toEqual([true, false]);
  expect(bodies[1]).toContain("<Part><PartNumber>1</PartNumber><ETag>");
});

test("a store that takes checksums is asked once", async () => {
  const { client, bodies } = strictStore(() => true);
  await finish(client);
  expect(bodies).toHaveLength(1);
});

test("what is refused either way is the store's refusal, not another writer's object", async () => {
  const { client } = strictStore(() => false);
  await expect(finish(client)).rejects.toMatchObject({ code: "source/s3.refused" });
});
