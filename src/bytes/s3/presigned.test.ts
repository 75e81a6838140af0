import { describe, expect, test } from "vitest";
import { patternBytes } from "../../../test/contracts/source-contract.ts";
import { startRangeServer } from "../../../test/support/range-server.ts";
import { fetchTransport, openHttp } from "../http/index.ts";
import { explainSignedUrls } from "./errors.ts";

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
  test("says that the URL has expired, and shows nothing of its signature", async () => {
    const document = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
    const error = await refuse(document, "?X-Amz-Credential=AKIA&X-Amz-Signature=0123abcd");
    expect(error).toMatchObject({
      code: "source/s3.forbidden",
      hint: "The signed URL has expired: ask for a new one",
      message: expect.stringContaining("?…"),
    });
    expect(JSON.stringify([error, String((error as Error).stack)])).not.toMatch(/0123abcd|AKIA/);
  });
  test("leaves URLs without a signature alone", async () => {
    expect(await refuse("<Error><Code>AccessDenied</Code></Error>", "?page=2")).toMatchObject({
      code: "source/http.forbidden",
    });
  });
});
