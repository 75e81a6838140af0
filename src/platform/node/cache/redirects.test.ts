import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "vitest";
import { expectBytes, patternBytes } from "../../../../test/contracts/source-contract.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { openHttp } from "../../../bytes/http/index.ts";
import type { HttpTransport } from "../../../bytes/http/transport.ts";
import { type LayeredStore, memoryStore, type StoredFile } from "../../../bytes/layers/store.ts";
import { DiskCache } from "./disk-cache.ts";
import { scanCache } from "./folder.ts";

const CONTENT = patternBytes(1 << 16);
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-cache-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

type Manner = "confirms" | "overlooks conditions";

describe("a file that redirects lead to", () => {
  const URL = "https://host/m.gguf";
  /** Every server gives its file the same tag, and confirms it. */
  const leadingTo = (finalUrl: string, content: Bytes, manner: Manner): HttpTransport => ({
    conditions: "if-range",
    async request({ headers }) {
      const isKnown = manner === "confirms" && headers["if-none-match"] === '"same"';
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
  const read = async (
    store: LayeredStore,
    finalUrl: string,
    content: Bytes,
    manner: Manner = "confirms",
  ): Promise<Bytes> => {
    const source = await openHttp(URL, { transport: leadingTo(finalUrl, content, manner), store, headBytes: 1000 });
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
  ])("is another version if they lead elsewhere: %s", async (_, make) => {
    const store = make();
    expectBytes(await read(store, "https://a/x?signature=1", CONTENT), CONTENT.slice(0, 5000));
    // Another signature for the same file is not another version: the cache is used.
    expectBytes(await read(store, "https://a/x?signature=2", other), CONTENT.slice(0, 5000));
    expectBytes(await read(store, "https://b/x", other), other.slice(0, 5000));
    expectBytes(await read(store, "https://b/y", CONTENT), CONTENT.slice(0, 5000));
    expectBytes(await read(store, URL, other), other.slice(0, 5000));
    const offline = await openHttp(URL, { store, network: "offline" });
    expectBytes(await offline.read(0, 5000), other.slice(0, 5000));
  });

  test.each([
    ["on disk", () => new DiskCache({ folder })],
    ["in memory", () => memoryStore()],
  ])("is another version where a server that overlooks conditions answers: %s", async (_, make) => {
    const store = make();
    expectBytes(await read(store, "https://a/x", CONTENT), CONTENT.slice(0, 5000));
    expectBytes(await read(store, "https://b/x", other, "overlooks conditions"), other.slice(0, 5000));
    expectBytes(await read(store, "https://a/x", CONTENT, "overlooks conditions"), CONTENT.slice(0, 5000));
  });

  describe("is kept on disk", () => {
    const FILE = { place: `url ${URL}`, label: URL, validator: '"same"', byteLength: CONTENT.byteLength };
    const [a, b] = [
      { ...FILE, from: "https://a/x" },
      { ...FILE, from: "https://b/x" },
    ];
    const found = async (file: StoredFile): Promise<Bytes> => {
      const into = new Uint8Array(1000);
      return into.subarray(0, await new DiskCache({ folder }).get(file, 0, into));
    };

    test("beside what another server called by the same tag", async () => {
      const cache = new DiskCache({ folder });
      await cache.put(a, 0, CONTENT.slice(0, 1000));
      await cache.put(b, 0, other.slice(0, 1000));
      expectBytes(await found(a), CONTENT.slice(0, 1000));
      expectBytes(await found(b), other.slice(0, 1000));
      expectBytes(await found(FILE), new Uint8Array(0));
    });
    test("and is not that server's under the name that its entry would have", async () => {
      const cache = new DiskCache({ folder });
      await cache.put(a, 0, CONTENT.slice(0, 1000));
      const [run] = await scanCache(folder);
      await cache.put(b, 0, other.slice(0, 1000));
      const name = (await scanCache(folder)).map(({ path }) => path).find((path) => path !== run?.path) ?? "";
      await rename(run?.path ?? "", name);
      expectBytes(await found(b), new Uint8Array(0));
    });
  });
});
