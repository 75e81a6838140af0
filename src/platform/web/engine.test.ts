import { afterEach, describe, expect, it, vi } from "vitest";
import { encodeHex } from "../../base/text.ts";
import { blobSource } from "../../bytes/blob.ts";
import { patternBytes } from "../../primitives/digest/implementation.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { FromWorker, ToWorker } from "../../workers/protocol.ts";
import { serveJobs } from "../../workers/serve.ts";
import { webEngine } from "./engine.ts";

/** A browser's Worker, reduced to its events, which runs the real job loop. */
class PageWorker extends EventTarget {
  static readonly started: { readonly url: string; readonly type: string | undefined }[] = [];
  static jobs = 0;
  #toWorker: (message: ToWorker) => void = () => {};

  constructor(url: URL | string, options: { readonly type?: string } = {}) {
    super();
    PageWorker.started.push({ url: String(url), type: options.type });
    const post = (message: FromWorker): void => {
      queueMicrotask(() => this.dispatchEvent(new MessageEvent("message", { data: message })));
    };
    const listen = (listener: (message: ToWorker) => void): void => {
      this.#toWorker = listener;
    };
    const openDescriptor = async (descriptor: object) => blobSource((descriptor as { readonly blob: Blob }).blob);
    serveJobs({ post, listen }, { engine: portableEngine(), openDescriptor });
  }

  postMessage(message: ToWorker, transfer: ArrayBuffer[]): void {
    PageWorker.jobs++;
    const clone = structuredClone(message, { transfer });
    queueMicrotask(() => this.#toWorker(clone));
  }

  terminate(): void {}
}

/** What a page gets if its policy forbids the script: an event without a message. */
class BlockedWorker extends EventTarget {
  constructor() {
    super();
    queueMicrotask(() => this.dispatchEvent(new Event("error")));
  }

  postMessage(): void {}
  terminate(): void {}
}

describe("webEngine()", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    PageWorker.started.length = 0;
    PageWorker.jobs = 0;
  });

  const bytes = patternBytes((1 << 20) + 1);
  const whole = { offset: 0, byteLength: bytes.byteLength };
  const hash = async (engine: ReturnType<typeof webEngine>): Promise<string[]> => {
    const range = await engine.digestRange("blake3", blobSource(new Blob([bytes])), whole);
    return [encodeHex(range), encodeHex(await engine.digest("blake3", bytes))];
  };
  const expected = async (): Promise<string> => encodeHex(await portableEngine().digest("blake3", bytes));

  it("hashes blobs and long inputs on module workers, which open the blob themselves", async () => {
    vi.stubGlobal("Worker", PageWorker);
    const engine = webEngine({ workers: 1 });
    const digest = await expected();
    expect(await hash(engine)).toEqual([digest, digest]);
    expect(PageWorker.started).toHaveLength(1);
    expect(PageWorker.started[0]).toMatchObject({ url: expect.stringMatching(/\/worker-entry\.js$/), type: "module" });
    expect(PageWorker.jobs).toBe(2);
    await engine.close();
  });

  it("takes the worker script from the given address", async () => {
    vi.stubGlobal("Worker", PageWorker);
    await hash(webEngine({ workers: 1, workerUrl: "https://example.test/tare-worker.js" }));
    expect(PageWorker.started[0]?.url).toBe("https://example.test/tare-worker.js");
  });

  it("works on the page itself if workers are blocked", async () => {
    vi.stubGlobal("Worker", BlockedWorker);
    const digest = await expected();
    expect(await hash(webEngine({ workers: 2 }))).toEqual([digest, digest]);
  });

  it.each([{ workers: 0 }, { tier: "javascript" as const }])("starts no worker with %o", async (options) => {
    vi.stubGlobal("Worker", PageWorker);
    expect(webEngine(options).name).toBe("portable");
    expect(PageWorker.started).toHaveLength(0);
  });
});
