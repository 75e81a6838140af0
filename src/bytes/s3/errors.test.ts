import { describe, expect, it } from "vitest";
import { encodeUtf8 } from "../../base/text.ts";
import type { HttpResponse } from "../http/transport.ts";
import { readRefusal, s3Error } from "./errors.ts";

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

describe("what a store says", () => {
  it("is told as far as it is words", async () => {
    expect(await said("AccessDenied", "Request has expired.")).toContain("(403 AccessDenied: Request has expired.)");
    expect(await said("AccessDenied", "User isn't authorized, by the AWS account's policy")).toContain(
      "isn't authorized",
    );
  });

  it.each([
    `Not taken: ${SIGNATURE} of ${KEY} for /bucket/x`,
    `for /x?X-Amz-Credential=${KEY}&amp;X-Amz-Signature=${SIGNATURE}`,
    `Signature=${SIGNATURE},Credential=${KEY}/20260101/us-east-1/s3/aws4_request`,
  ])("never tells a key or a signature: %s", async (message) => {
    const shown = await said("AccessDenied", message);
    expect(shown).not.toContain(KEY);
    expect(shown).not.toContain(SIGNATURE.slice(0, 16));
  });

  it("nor the id of a key that is a word, nor a code that is none", async () => {
    expect(await said("AccessDenied", "No such user as minioadmin here", "minioadmin")).not.toContain("minioadmin");
    expect(await said(KEY, "no")).not.toContain(KEY);
  });
});
