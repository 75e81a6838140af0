import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "vitest";
import { expectBytes, patternBytes } from "../../../test/contracts/source-contract.ts";
import type { Bytes } from "../../base/bytes.ts";
import { openHttp } from "../../bytes/http/index.ts";
import type { HttpTransport } from "../../bytes/http/transport.ts";
import { memoryStore, type RangeStore } from "../../bytes/layers/store.ts";
import { DiskCache } from "./disk-cache.ts";

const CONTENT = patternBytes(1 << 16);
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-cache-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe("a file that redirects lead to", () => {
  const URL = "https://host/m.gguf";
  /** Every server calls its file by the same tag, and confirms it. */
  const leadingTo = (finalUrl: string, content: Bytes): HttpTransport => ({
    conditions: "if-range",
    async request({ headers }) {
      const isKnown = headers["if-none-match"] === '"same"';
      const [, first = 0, last = 0] = /(\d+)-(\d+)/.exec(headers["range"] ?? "") ?? [];
      const body = content.slice(Number(first), Number(last) + 1);
      const range = `bytes ${first}-${Number(first) + body.byteLength - 1}/${content.byteLength}`;
      const fields: Record<string, string> = { etag: '"same"', ...(isKnown ? {} : { "content-range": range }) };
      const pieces = async function* (): AsyncGenerator<Bytes> {
        if (!isKnown) yield body;
      };
      return {
        status: isKnown ? 304 : 206,
        headers: { get: (name: string) => fields[name] ?? null },
        url: finalUrl,
        body: pieces(),
        cancel: () => undefined,
      };
    },
  });
  const read = async (store: RangeStore, finalUrl: string, content: Bytes): Promise<Bytes> => {
    const source = await openHttp(URL, { transport: leadingTo(finalUrl, content), store, headBytes: 1000 });
    try {
      return (await source.read(0, 5000)).slice();
    } finally {
      await source.close();
    }
  };
  const other = CONTENT.slice().reverse();

  test.each([
    ["on disk", () => new DiskCache({ folder })],
    ["in memory", () => memoryStore()],
  ])("is another version where they lead elsewhere: %s", async (_, make) => {
    const store = make();
    expectBytes(await read(store, "https://a/x?signature=1", CONTENT), CONTENT.slice(0, 5000));
    // Another signature for the same file is no other version: what is cached is used.
    expectBytes(await read(store, "https://a/x?signature=2", other), CONTENT.slice(0, 5000));
    expectBytes(await read(store, "https://b/x", other), other.slice(0, 5000));
    expectBytes(await read(store, "https://b/y", CONTENT), CONTENT.slice(0, 5000));
    expectBytes(await read(store, URL, other), other.slice(0, 5000));
    const offline = await openHttp(URL, { store, network: "offline" });
    expectBytes(await offline.read(0, 5000), other.slice(0, 5000));
  });
});
