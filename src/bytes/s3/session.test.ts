import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { HttpRequest, HttpResponse, HttpTransport } from "../http/transport.ts";
import { objectUrl } from "./address.ts";
import { S3Session } from "./session.ts";

interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Where the transport ended up, after redirects. */
  readonly url?: string;
}

/** A transport that gives these replies in turn and repeats the last one. */
function scripted(replies: readonly Reply[]): HttpTransport & { readonly requests: HttpRequest[] } {
  const requests: HttpRequest[] = [];
  return {
    requests,
    conditions: "if-range",
    async request(request): Promise<HttpResponse> {
      requests.push(request);
      const reply = replies[Math.min(requests.length, replies.length) - 1] as Reply;
      const body = (async function* () {
        yield new TextEncoder().encode(reply.body ?? "");
      })();
      return {
        status: reply.status,
        headers: new Headers(reply.headers),
        url: reply.url ?? request.url,
        body,
        cancel: () => undefined,
      };
    },
  };
}

const NOW = Date.UTC(2026, 0, 1);

async function send(replies: readonly Reply[], method: "GET" | "PUT" = "GET") {
  const transport = scripted(replies);
  const session = new S3Session({
    endpoint: { region: "us-east-1", addressing: "virtual-host" },
    credentials: { accessKeyId: "ID", secretAccessKey: "SECRET", sessionToken: "TOKEN" },
    transport,
    sha256: async (bytes) => new Uint8Array(createHash("sha256").update(bytes).digest()),
    now: () => NOW,
  });
  const url = objectUrl({ bucket: "bucket", key: "key" }, session.endpoint);
  const body = method === "PUT" ? new Uint8Array(3) : undefined;
  const headers = { range: "bytes=0-9" };
  const reply = await session.send({ url, method, headers, body, signal: new AbortController().signal });
  return { reply, session, requests: transport.requests };
}

const hostsOf = (requests: readonly HttpRequest[]): string[] => requests.map(({ url }) => new URL(url).host);

describe("S3Session", () => {
  test("signs the headers of S3 and none that a proxy may change", async () => {
    const { requests } = await send([{ status: 206 }]);
    expect(requests[0]?.headers).toMatchObject({
      range: "bytes=0-9",
      "x-amz-date": "20260101T000000Z",
      "x-amz-security-token": "TOKEN",
      authorization: expect.stringContaining(
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,",
      ),
    });
  });
  test.each([
    ["a 301 that names the region", { status: 301, headers: { "x-amz-bucket-region": "eu-west-1" } }],
    [
      "a 400 whose document does",
      { status: 400, body: "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>" },
    ],
    [
      "a redirect that was followed without the signature",
      { status: 403, url: "https://bucket.s3.eu-west-1.amazonaws.com/key" },
    ],
  ] as const)("asks again in the other region after %s", async (_, first) => {
    const { reply, session, requests } = await send([first, { status: 200 }], "PUT");
    expect(reply.refusal).toBeUndefined();
    expect(hostsOf(requests)).toEqual(["bucket.s3.us-east-1.amazonaws.com", "bucket.s3.eu-west-1.amazonaws.com"]);
    expect(requests[1]?.headers["authorization"]).toContain("/eu-west-1/s3/");
    expect(session.endpoint.region).toBe("eu-west-1");
  });
  test("never sends its key to a host that is not Amazon's", async () => {
    const { reply, requests } = await send([{ status: 403, url: "https://s3.eu-west-1.evil.example/key" }]);
    expect(reply.refusal?.status).toBe(403);
    expect(requests).toHaveLength(1);
    const tricked = await send([{ status: 301, headers: { "x-amz-bucket-region": "x.evil.example/" } }]);
    expect(hostsOf(tricked.requests)).toEqual(["bucket.s3.us-east-1.amazonaws.com"]);
  });
  test("gives up if the store redirects it in circles", async () => {
    const to = (region: string): Reply => ({ status: 301, headers: { "x-amz-bucket-region": region } });
    const { reply, requests } = await send([to("eu-west-1"), to("eu-west-2"), to("eu-west-1"), to("eu-west-2")]);
    expect(reply.refusal?.status).toBe(301);
    expect(requests).toHaveLength(3);
  });
  test("takes the store's clock once, and only if it differs from its own", async () => {
    const skewed = (date: number): Reply => ({
      status: 403,
      headers: { date: new Date(date).toUTCString() },
      body: "<Error><Code>RequestTimeTooSkewed</Code></Error>",
    });
    const { requests } = await send([skewed(NOW + 3_600_000), { status: 200 }]);
    expect(requests.map(({ headers }) => headers["x-amz-date"])).toEqual(["20260101T000000Z", "20260101T010000Z"]);
    expect((await send([skewed(NOW + 1000)])).requests).toHaveLength(1);
  });
});
