import { describe, expect, it, test } from "vitest";
import { patternBytes } from "../../../test/contracts/source-contract.ts";
import { startRangeServer } from "../../../test/support/range-server.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { fetchTransport, openHttp } from "../http/index.ts";
import type { HttpResponse } from "../http/transport.ts";
import { explainSignedUrls, readRefusal, s3Error } from "./errors.ts";

const KEY = "AKIAEXAMPLE000";
const SIGNATURE = "f00dface".repeat(8);

async function said(code: string, message: string, keyId?: string): Promise<string> {
  const text = `<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
  const response = {
    status: 403,
    url: "https://store/x",
    headers: new Headers(),
    body: (async function* () {
      yield encodeUtf8(text);
    })(),
    cancel: () => undefined,
  } as unknown as HttpResponse;
  return s3Error(await readRefusal(response, keyId), "s3://bucket/x").message;
}

describe("the message of a store", () => {
  it("is repeated as far as it consists of words", async () => {
    expect(await said("AccessDenied", "Request has expired.")).toContain("(403 AccessDenied: Request has expired.)");
    expect(await said("AccessDenied", "User isn't authorized, by the AWS account's policy")).toContain(
      "isn't authorized",
    );
  });

  it.each([
    `Not taken: ${SIGNATURE} of ${KEY} for /bucket/x`,
    `for /x?X-Amz-Credential=${KEY}&amp;X-Amz-Signature=${SIGNATURE}`,
    `Signature=${SIGNATURE},Credential=${KEY}/20260101/us-east-1/s3/aws4_request`,
  ])("never shows a key or a signature: %s", async (message) => {
    const shown = await said("AccessDenied", message);
    expect(shown).not.toContain(KEY);
    expect(shown).not.toContain(SIGNATURE.slice(0, 16));
  });

  it("never shows the id of a key that is a word, nor a malformed code", async () => {
    expect(await said("AccessDenied", "No such user as minioadmin here", "minioadmin")).not.toContain("minioadmin");
    expect(await said(KEY, "no")).not.toContain(KEY);
  });
});

async function refuse(body: string, query: string): Promise<unknown> {
  const server = await startRangeServer(patternBytes(10));
  server.setFault(() => ({ status: 403, body: new TextEncoder().encode(body) as Uint8Array<ArrayBuffer> }));
  try {
    const transport = explainSignedUrls(fetchTransport());
    return await openHttp(server.url + query, { transport }).catch((error: unknown) => error);
  } finally {
    await server.close();
  }
}

describe("explainSignedUrls()", () => {
  test("reports that the URL has expired, and shows nothing of its signature", async () => {
    const document = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
    const error = await refuse(document, "?X-Amz-Credential=AKIA&X-Amz-Signature=0123abcd");
    expect(error).toMatchObject({
      code: "source/s3.forbidden",
      hint: "The signed URL has expired: ask for a new one",
      message: expect.stringContaining("?…"),
    });
    expect(JSON.stringify([error, String((error as Error).stack)])).not.toMatch(/0123abcd|AKIA/);
  });
  test("does not change URLs without a signature", async () => {
    expect(await refuse("<Error><Code>AccessDenied</Code></Error>", "?page=2")).toMatchObject({
      code: "source/http.forbidden",
    });
  });
});
