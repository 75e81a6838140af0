import { expect, test } from "vitest";
import type { Bytes } from "../../base/bytes.ts";
import { SequentialHttpSource } from "./sequential.ts";
import type { HttpTransport } from "./transport.ts";

const CONTENT = Uint8Array.of(1, 2, 3, 4);

/** A server that calls `onReply` just before it answers, and counts the replies that are still open. */
function server(onReply: () => void): HttpTransport & { open: number } {
  const transport = {
    conditions: "none" as const,
    open: 0,
    async request({ url }: { readonly url: string }) {
      onReply();
      transport.open++;
      let isOpen = true;
      async function* body(): AsyncGenerator<Bytes> {
        yield CONTENT;
      }
      const cancel = (): void => {
        if (isOpen) transport.open--;
        isOpen = false;
      };
      return { status: 200, headers: new Headers(), url, body: body(), cancel };
    },
  };
  return transport;
}

test("a read that is given up while its transfer begins reports that, and drops the transfer", async () => {
  const giveUp = new AbortController();
  const transport = server(() => giveUp.abort(new Error("given up")));
  const target = { url: "http://localhost/", label: "x", transport, headers: {}, timeoutMs: 30_000 };
  const validators = { etag: undefined, lastModified: undefined };
  const facts = { byteLength: CONTENT.byteLength, validators, contentRange: "hidden" } as const;
  const source = new SequentialHttpSource(target, facts, { maxDiscardBytes: 100 });
  await expect(source.read(0, 2, { signal: giveUp.signal })).rejects.toThrow("given up");
  expect(transport.open).toBe(0);
  expect([...(await source.read(0, 2))]).toEqual([1, 2]);
  await source.close();
  expect(transport.open).toBe(0);
});
