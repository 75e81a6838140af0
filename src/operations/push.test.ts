import { describe, expect, test } from "vitest";
import { expectBytes, patternBytes } from "../../test/contracts/source-contract.ts";
import { MODEL, type StartedStore, seed, startTestStore } from "../../test/support/s3-tools.ts";
import { memorySource } from "../bytes/memory.ts";
import {
  encodePushEntry,
  type PushItem,
  type PushJournal,
  type PushOptions,
  type PushResult,
  parsePushRecord,
  pushObject,
} from "./push.ts";

/** A journal that outlives the push, like one on disk. */
function memoryJournal(): PushJournal & { text: string } {
  return {
    text: "",
    async read() {
      return parsePushRecord(this.text);
    },
    async add(entry) {
      this.text += encodePushEntry(entry);
    },
    async clear() {
      this.text = "";
    },
  };
}

const startSmall = (): Promise<StartedStore> => startTestStore({ leastPartBytes: 1000 });

interface Setup {
  readonly byteLength?: number;
  readonly identity?: string;
  readonly journal?: PushJournal;
  readonly options?: Partial<PushOptions>;
}

function push(store: StartedStore, setup: Setup = {}): Promise<PushResult> {
  const { byteLength = 9500, identity = "one", journal = memoryJournal() } = setup;
  const item: PushItem = {
    source: memorySource(patternBytes(byteLength)),
    identity,
    address: MODEL,
    journal,
    checkUnchanged: async () => undefined,
  };
  return pushObject(store.client, item, { overwrite: "refuse", partBytes: 1000, ...setup.options });
}

function partNumbers({ server }: StartedStore): number[] {
  const parts = server.requests.filter(({ method, query }) => method === "PUT" && query.has("partNumber"));
  return parts.map(({ query }) => Number(query.get("partNumber")));
}

/** The store fails for good after this many parts. */
function failAfter({ server }: StartedStore, parts: number): void {
  let seen = 0;
  server.setHook(({ query }, response) => {
    if (!query.has("partNumber") || seen++ < parts) return undefined;
    response.statusCode = 403;
    response.end("<Error><Code>AccessDenied</Code></Error>");
    return "handled";
  });
}

/**
 * A run that was killed while the store completed the object: neither the upload nor the object shows. Returns what
 * brings the object to light.
 */
async function hideObject(
  store: StartedStore,
  journal: PushJournal & { text: string },
  options: Partial<PushOptions> = {},
  byteLength = 9500,
): Promise<() => void> {
  const objects = store.server.objects as Map<string, unknown>;
  const before = objects.get(MODEL.key);
  await push(store, { journal, byteLength, options });
  journal.text = journal.text.replace(/\{"type":"done".*\n/, "");
  const done = objects.get(MODEL.key);
  if (before === undefined) objects.delete(MODEL.key);
  else objects.set(MODEL.key, before);
  return () => objects.set(MODEL.key, done);
}

describe("pushObject()", () => {
  test("uploads in parts and counts every byte once", async () => {
    const store = await startSmall();
    let progress = 0;
    const result = await push(store, { options: { onProgress: (bytes) => (progress += bytes) } });
    expect(result).toMatchObject({ state: "written", byteLength: 9500, sentBytes: 9500 });
    expect(progress).toBe(9500);
    expectBytes(new Uint8Array(store.server.objects.get(MODEL.key)?.bytes ?? []), patternBytes(9500));
  });
  test("sends only what is missing after an interruption", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    failAfter(store, 4);
    await expect(push(store, { journal, options: { concurrency: 1 } })).rejects.toMatchObject({
      code: "source/s3.forbidden",
    });
    store.server.setHook(undefined);
    const before = partNumbers(store).length;
    const result = await push(store, { journal, options: { concurrency: 1 } });
    expect(result).toMatchObject({ state: "written", sentBytes: 5500 });
    expect(partNumbers(store).slice(before)).toEqual([5, 6, 7, 8, 9, 10]);
    expectBytes(new Uint8Array(store.server.objects.get(MODEL.key)?.bytes ?? []), patternBytes(9500));
    expect(store.server.uploads.size).toBe(0);
  });
  test("sends a part again that the store has lost, or that is not in the journal", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    failAfter(store, 6);
    await push(store, { journal, options: { concurrency: 1 } }).catch(() => undefined);
    store.server.setHook(undefined);
    const [upload] = store.server.uploads.values();
    upload?.parts.delete(2);
    // The last line is torn, as after a power cut.
    journal.text = journal.text.slice(0, -20);
    const before = partNumbers(store).length;
    await push(store, { journal, options: { concurrency: 1 } });
    expect(partNumbers(store).slice(before)).toEqual([2, 6, 7, 8, 9, 10]);
    expectBytes(new Uint8Array(store.server.objects.get(MODEL.key)?.bytes ?? []), patternBytes(9500));
  });
  test("starts over with a file that changed, and drops the old upload", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    failAfter(store, 4);
    await push(store, { journal, options: { concurrency: 1 } }).catch(() => undefined);
    store.server.setHook(undefined);
    await expect(push(store, { journal, identity: "two" })).resolves.toMatchObject({ sentBytes: 9500 });
    expect(store.server.uploads.size).toBe(0);
  });
  test("starts over if the store has dropped the upload", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    failAfter(store, 4);
    await push(store, { journal }).catch(() => undefined);
    store.server.setHook(undefined);
    (store.server.uploads as Map<string, unknown>).clear();
    await expect(push(store, { journal })).resolves.toMatchObject({ sentBytes: 9500 });
  });
  test.each([9500, 500])("recognises %d bytes that an earlier run finished", async (byteLength) => {
    const store = await startSmall();
    const journal = memoryJournal();
    await push(store, { byteLength, journal });
    await expect(push(store, { byteLength, journal })).resolves.toMatchObject({ state: "present", sentBytes: 0 });
    await expect(push(store, { byteLength })).rejects.toMatchObject({ code: "usage/exists" });
  });
  test("recognises an object that was completed just before the process died", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    await push(store, { journal });
    journal.text = journal.text.replace(/\{"type":"done".*\n/, "");
    await expect(push(store, { journal })).resolves.toMatchObject({ state: "present", sentBytes: 0 });
  });
  test("waits for the object of a run that died during its last request", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    const late = await hideObject(store, journal);
    const waits: number[] = [];
    const notes: string[] = [];
    const sleep = async (milliseconds: number): Promise<void> => {
      waits.push(milliseconds);
      if (waits.length === 3) late();
    };
    const before = partNumbers(store).length;
    const result = await push(store, { journal, options: { sleep, onNote: (text) => notes.push(text) } });
    expect(result).toMatchObject({ state: "present", sentBytes: 0 });
    expect(waits).toHaveLength(3);
    expect(notes).toEqual([expect.stringContaining("waiting for its object")]);
    expect(partNumbers(store)).toHaveLength(before);
  });
  test.each(["refuse", "replace"] as const)(
    "%s: knows an object that arrives while it sends again",
    async (overwrite) => {
      const store = await startSmall();
      const journal = memoryJournal();
      if (overwrite === "replace") seed(store.server, MODEL.key, patternBytes(3));
      const late = await hideObject(store, journal, { overwrite });
      store.server.setHook(({ query }) => {
        if (query.get("partNumber") === "9") late();
        return undefined;
      });
      const options = { sleep: async () => undefined, overwrite };
      await expect(push(store, { journal, options })).resolves.toMatchObject({ byteLength: 9500 });
      expect(store.server.objects.get(MODEL.key)?.bytes).toHaveLength(9500);
      expect(store.server.uploads.size).toBe(0);
      await expect(push(store, { journal, options })).resolves.toMatchObject({ state: "present" });
    },
  );
  test("knows a small object that arrives late", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    const late = await hideObject(store, journal, {}, 500);
    store.server.setHook(({ method }) => {
      if (method === "PUT") late();
      return undefined;
    });
    await expect(push(store, { journal, byteLength: 500 })).resolves.toMatchObject({ byteLength: 500 });
    await expect(push(store, { byteLength: 500 })).rejects.toMatchObject({ code: "usage/exists" });
  });
  test("an object of another file is still refused after a run that died", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    await hideObject(store, journal);
    seed(store.server, MODEL.key, patternBytes(3));
    await expect(push(store, { journal, options: { sleep: async () => undefined } })).rejects.toMatchObject({
      code: "usage/exists",
    });
  });
  test("refuses an existing object, and replaces it with --force", async () => {
    const store = await startSmall();
    seed(store.server, MODEL.key, patternBytes(3));
    await expect(push(store)).rejects.toMatchObject({ code: "usage/exists" });
    await push(store, { options: { overwrite: "replace" } });
    expect(store.server.objects.get(MODEL.key)?.bytes).toHaveLength(9500);
  });
  test("loses a race with a typed error, and keeps nothing of its upload", async () => {
    const store = await startSmall();
    const journal = memoryJournal();
    store.server.setHook(({ method, query }) => {
      if (method === "POST" && query.has("uploadId")) seed(store.server, MODEL.key, patternBytes(7));
      return undefined;
    });
    await expect(push(store, { journal })).rejects.toMatchObject({ code: "usage/exists" });
    expect(store.server.objects.get(MODEL.key)?.bytes).toHaveLength(7);
    expect(store.server.uploads.size).toBe(0);
    expect(journal.text).toBe("");
  });
  test("publishes nothing if the file changed while it was read", async () => {
    const store = await startSmall();
    const checkUnchanged = async (): Promise<void> => {
      throw new Error("changed");
    };
    const source = memorySource(patternBytes(2500));
    const item = { source, identity: "one", address: MODEL, journal: memoryJournal(), checkUnchanged };
    await expect(pushObject(store.client, item, { overwrite: "refuse", partBytes: 1000 })).rejects.toThrow("changed");
    expect(store.server.objects.size).toBe(0);
  });
});

describe("parsePushRecord()", () => {
  test.each(["", "{}\n", "null\n[]\n7\n", '{"type":"part","number":-1,"etag":"a","sha256":"b"}\n', "{\n"])(
    "ignores %j",
    (text) => {
      expect(parsePushRecord(text)).toEqual({ upload: undefined, parts: new Map(), done: undefined, writes: [] });
    },
  );
});
