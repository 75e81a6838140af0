import { createHash } from "node:crypto";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { encodeSetFile } from "../../src/formats/aeroset/set-file.ts";
import { TokenBucket } from "../../src/operations/pull/rate.ts";
import { openPullStore } from "../../src/platform/node/pull/store.ts";
import { startFileServer } from "../support/file-server.ts";
import { aeroFile, contentOf, folder, holds, noise, pullInto, serve, setOf, stateOf } from "./pull-into.ts";

const MIB = 1 << 20;
const WEIGHTS = noise(12 * MIB);
const PAGED = aeroFile(WEIGHTS, MIB);
const PLAIN = noise(13 * MIB + 5, 2);

const sha256 = (bytes: Bytes): string => createHash("sha256").update(bytes).digest("hex");

/** What lies in a folder beside the receipt. */
const names = (directory: string): string[] => readdirSync(directory).filter((name) => name !== ".tare-pull.json");

describe("pull() of one file", () => {
  it("brings an AERO file, compared page by page", async () => {
    const server = await serve({ "m.aero": PAGED });
    const to = folder();
    const { files, format } = await pullInto(to, { url: `${server.url}m.aero` });
    expect(format).toBe("aero");
    expect(files).toEqual([
      {
        path: "m.aero",
        byteLength: PAGED.byteLength,
        fetchedBytes: PAGED.byteLength,
        resumedBytes: 0,
        verified: "pages",
      },
    ]);
    expect(holds(to, "m.aero", PAGED)).toBe(true);
    expect(names(to)).toEqual(["m.aero"]);
  });

  it("brings anything else, and says that it was not compared", async () => {
    const server = await serve({ "notes.bin": PLAIN, "empty.txt": new Uint8Array(0) });
    const to = folder();
    const { files } = await pullInto(to, { url: `${server.url}notes.bin` });
    expect(files[0]?.verified).toBe("none");
    expect(holds(to, "notes.bin", PLAIN)).toBe(true);
    await pullInto(to, { url: `${server.url}empty.txt` });
    expect(contentOf(to, "empty.txt")?.byteLength).toBe(0);
  });

  it("compares the chunks of an AERO file without pages", async () => {
    const whole = aeroFile(noise(5 * MIB));
    const damaged = whole.slice();
    damaged[whole.byteLength - 9] = (damaged[whole.byteLength - 9] as number) ^ 1;
    const server = await serve({ "m.aero": whole, "bad.aero": damaged });
    const to = folder();
    expect((await pullInto(to, { url: `${server.url}m.aero` })).files[0]?.verified).toBe("chunks");
    const bad = pullInto(to, { url: `${server.url}bad.aero` });
    await expect(bad).rejects.toMatchObject({ code: "integrity/pull.content" });
    expect(names(to)).toEqual(["m.aero"]);
  });

  it("asks once and fetches nothing when repeated", async () => {
    const server = await serve({ "m.bin": PLAIN });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    const before = server.servedBytes;
    const again = await pullInto(to, { url: `${server.url}m.bin` });
    expect(again.requests).toBe(1);
    expect(server.servedBytes).toBe(before);
    expect(again.files[0]).toMatchObject({ fetchedBytes: 0, byteLength: PLAIN.byteLength });
  });

  it("replaces its own older copy, but no file of somebody else", async () => {
    const server = await serve({ "m.bin": noise(1000) });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    server.setFile("m.bin", noise(2000, 7));
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", noise(2000, 7))).toBe(true);
    writeFileSync(join(to, "m.bin"), "mine");
    await expect(pullInto(to, { url: `${server.url}m.bin` })).rejects.toMatchObject({ code: "usage/exists" });
    expect(holds(to, "m.bin", new Uint8Array(Buffer.from("mine")))).toBe(true);
    await pullInto(to, { url: `${server.url}m.bin`, overwrite: "replace" });
    expect(holds(to, "m.bin", noise(2000, 7))).toBe(true);
  });

  it("fetches nothing of a file that the disk has no room for", async () => {
    const server = await serve({ "m.bin": PLAIN });
    const to = folder();
    const store = await openPullStore(to, { environment: { XDG_STATE_HOME: stateOf(to) } });
    const full = new Proxy(store, {
      get(target, key: keyof typeof store) {
        if (key === "freeBytes") return async () => PLAIN.byteLength - 1;
        const member: unknown = target[key];
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
    const pulled = pullInto(folder(), { url: `${server.url}m.bin`, store: full });
    await expect(pulled).rejects.toMatchObject({ code: "source/pull.space" });
    await store.close();
    expect(readdirSync(to)).toEqual([]);
  });

  it("refuses addresses that name no file, and two pulls into one folder", async () => {
    const server = await serve({ "m.bin": PLAIN });
    await expect(pullInto(folder(), { url: server.url })).rejects.toMatchObject({ code: "usage/pull.name" });
    const to = folder();
    let goOn = (): void => undefined;
    const after = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    // The pieces come when the second pull has been refused, and the first one still goes on.
    server.setFault(({ index }) => (index >= 1 ? { after } : undefined));
    const first = pullInto(to, { url: `${server.url}m.bin` });
    while (!readdirSync(to).includes(".tare-pull.lock")) await new Promise((resolve) => setTimeout(resolve, 1));
    await expect(pullInto(to, { url: `${server.url}m.bin` })).rejects.toMatchObject({ code: "source/pull.locked" });
    goOn();
    await first;
    expect(holds(to, "m.bin", PLAIN)).toBe(true);
  });
});

describe("pull() of a set", () => {
  const parts = { "part-000.aero": aeroFile(noise(5 * MIB, 3), MIB), "part-001.aero": aeroFile(noise(MIB, 4)) };
  const files = setOf(parts, aeroFile(noise(400, 5)));

  it("brings every file of an AEROSET, the JSON last", async () => {
    const server = await serve(files);
    const to = folder();
    const result = await pullInto(to, { url: `${server.url}model.aeroset.json` });
    expect(result.files.map(({ path, verified }) => [path, verified])).toEqual([
      ["part-000.aero", "pages"],
      ["part-001.aero", "sha256"],
      ["index.aero", "sha256"],
      ["model.aeroset.json", "none"],
    ]);
    for (const [name, bytes] of Object.entries(files)) expect(holds(to, name, bytes)).toBe(true);
    const again = await pullInto(to, { url: `${server.url}model.aeroset.json` });
    expect(again.requests).toBe(1);
  });

  it("never puts the JSON in place when a part is damaged everywhere", async () => {
    const damaged = files["part-001.aero"]?.slice() as Bytes;
    damaged[5000] = (damaged[5000] as number) ^ 4;
    const server = await serve({ ...files, "part-001.aero": damaged });
    const to = folder();
    const pulling = pullInto(to, { url: `${server.url}model.aeroset.json` });
    await expect(pulling).rejects.toMatchObject({ code: "integrity/pull.sha256" });
    expect(names(to)).not.toContain("model.aeroset.json");
    expect(names(to)).not.toContain("part-001.aero");
  });

  it("adopts files that are here already by their digest", async () => {
    const server = await serve(files);
    const to = folder();
    writeFileSync(join(to, "part-000.aero"), files["part-000.aero"] as Bytes);
    await pullInto(to, { url: `${server.url}model.aeroset.json` });
    expect(server.requests.some(({ path }) => path === "part-000.aero")).toBe(false);
  });

  it("stays on its own server unless another one is allowed", async () => {
    const elsewhere = await serve({ "part-000.aero": parts["part-000.aero"] });
    const path = `${elsewhere.url}part-000.aero`;
    const part = {
      path,
      sha256: sha256(parts["part-000.aero"]),
      sizeBytes: parts["part-000.aero"].byteLength,
      shards: [0],
    };
    const json = encodeSetFile({ model: {}, parts: [part], globalIndex: { path: "index.aero" } });
    const server = await serve({ "model.aeroset.json": json, "index.aero": files["index.aero"] as Bytes });
    const url = `${server.url}model.aeroset.json`;
    const to = folder();
    await expect(pullInto(to, { url })).rejects.toMatchObject({ code: "source/resolver.origin" });
    expect(elsewhere.requests).toEqual([]);
    await pullInto(to, { url, allowedOrigins: new Set([new URL(elsewhere.url).origin]) });
    expect(holds(to, "part-000.aero", parts["part-000.aero"])).toBe(true);
    expect(JSON.parse(Buffer.from(contentOf(to, "model.aeroset.json") as Bytes).toString()).parts[0].path).toBe(
      "part-000.aero",
    );
  });
});

describe("pull() that was cut off", () => {
  it.each([
    ["with pages", "m.aero", PAGED],
    ["without anything to compare", "m.bin", PLAIN],
  ])("goes on where it was, %s", async (_, name, bytes) => {
    const server = await serve({ [name]: bytes });
    const to = folder();
    const stop = new AbortController();
    server.setFault(() => ({ bytesPerSecond: 16 * MIB }));
    let done = 0;
    const first = pullInto(to, {
      url: server.url + name,
      concurrency: 2,
      signal: stop.signal,
      onProgress: (byteLength) => {
        done += byteLength;
        if (done > MIB) stop.abort(new Error("killed"));
      },
    });
    await expect(first).rejects.toThrow("killed");
    expect(names(to).sort()).toEqual([`${name}.tare-part`, `${name}.tare-pull`]);
    server.setFault(undefined);
    const before = server.servedBytes;
    // One connection: of two, one that lags on a busy machine leaves its piece to the other, which fetches all of it.
    const result = await pullInto(to, { url: server.url + name, concurrency: 1 });
    const { fetchedBytes = 0, resumedBytes = 0 } = result.files[0] ?? {};
    expect(resumedBytes).toBeGreaterThanOrEqual(MIB);
    expect(fetchedBytes + resumedBytes).toBe(bytes.byteLength);
    // Beside the missing pieces only the opening request brings bytes.
    expect(server.servedBytes - before).toBeLessThanOrEqual(fetchedBytes + 300_000);
    expect(holds(to, name, bytes)).toBe(true);
    expect(names(to)).toEqual([name]);
  });

  it("does not believe a journal whose bytes are not there", async () => {
    const server = await serve({ "m.bin": PLAIN });
    const to = folder();
    const stop = new AbortController();
    server.setFault(() => ({ bytesPerSecond: 16 * MIB }));
    const url = `${server.url}m.bin`;
    await pullInto(to, { url, signal: stop.signal, onProgress: () => stop.abort(new Error("killed")) }).catch(() => 0);
    server.setFault(undefined);
    // As after a power failure: the journal reached the disk, the data did not.
    writeFileSync(join(to, "m.bin.tare-part"), new Uint8Array(100));
    const result = await pullInto(to, { url });
    expect(result.files[0]?.resumedBytes).toBe(0);
    expect(holds(to, "m.bin", PLAIN)).toBe(true);
  });

  it("begins anew where the file on the server is another one", async () => {
    const server = await serve({ "m.bin": PLAIN });
    const to = folder();
    const stop = new AbortController();
    server.setFault(() => ({ bytesPerSecond: 16 * MIB }));
    const url = `${server.url}m.bin`;
    await pullInto(to, { url, signal: stop.signal, onProgress: () => stop.abort(new Error("killed")) }).catch(() => 0);
    server.setFault(undefined);
    server.setFile("m.bin", noise(PLAIN.byteLength, 77));
    const result = await pullInto(to, { url });
    expect(result.files[0]?.resumedBytes).toBe(0);
    expect(holds(to, "m.bin", noise(PLAIN.byteLength, 77))).toBe(true);
  });
});

describe("pull() from servers that fail", () => {
  it.each([
    ["503 for every third request", ({ index }: { index: number }) => (index % 3 === 1 ? { status: 503 } : undefined)],
    ["dropped connections", ({ index }: { index: number }) => (index % 2 === 1 ? { dropAfter: 100_000 } : undefined)],
    [
      "bodies shorter than announced ranges",
      ({ index }: { index: number }) =>
        index % 2 === 1 ? { body: (b: Bytes) => b.subarray(0, b.byteLength >> 1) } : undefined,
    ],
    [
      "wrong Content-Range",
      ({ index }: { index: number }) =>
        index % 2 === 1 ? { headers: { "content-range": `bytes 0-9/${PLAIN.byteLength}` } } : undefined,
    ],
    ["no ranges at all", () => ({ range: "ignored" as const })],
  ])("%s", async (_, fault) => {
    const server = await serve({ "m.bin": PLAIN });
    server.setFault(fault);
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", PLAIN)).toBe(true);
  });

  it("gives up after the retries, and keeps what it has", async () => {
    const server = await serve({ "m.bin": PLAIN });
    server.setFault(({ range }) => (range !== undefined && range[0] >= 4 * MIB ? { status: 503 } : undefined));
    const to = folder();
    const pulling = pullInto(to, { url: `${server.url}m.bin` });
    await expect(pulling).rejects.toMatchObject({ code: "source/http.busy" });
    expect(names(to)).toContain("m.bin.tare-part");
    server.setFault(undefined);
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", PLAIN)).toBe(true);
  });

  it("starts a file over once when it changes on the way", async () => {
    const server = await serve({ "m.bin": PLAIN });
    const newer = noise(9 * MIB, 33);
    server.setFault(({ index }) => {
      if (index === 3) server.setFile("m.bin", newer);
      return undefined;
    });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", newer)).toBe(true);
    let version = 100;
    server.setFault(() => {
      server.setFile("m.bin", noise(9 * MIB, version++));
      return undefined;
    });
    const restless = pullInto(folder(), { url: `${server.url}m.bin` });
    await expect(restless).rejects.toMatchObject({ code: "source/http.changed" });
  });

  it("starts a file over when later replies state a version and the first ones did not", async () => {
    const server = await serve({ "m.bin": PLAIN });
    const newer = noise(PLAIN.byteLength, 34);
    server.setFault(({ index }) => {
      if (index === 2) server.setFile("m.bin", newer);
      return index < 2 ? { headers: { etag: undefined } } : undefined;
    });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", newer)).toBe(true);
  });

  it("takes all but the opening bytes out of one bucket that has the rate asked for", async () => {
    const server = await serve({ "m.bin": noise(3 * MIB) });
    const take = vi.spyOn(TokenBucket.prototype, "take").mockResolvedValue();
    onTestFinished(() => take.mockRestore());
    await pullInto(folder(), { url: `${server.url}m.bin`, limitRate: 6 * MIB });
    expect(new Set(take.mock.contexts).size).toBe(1);
    expect((take.mock.contexts[0] as TokenBucket).bytesPerSecond).toBe(6 * MIB);
    const taken = take.mock.calls.reduce((sum, [byteLength]) => sum + byteLength, 0);
    expect(taken).toBeGreaterThanOrEqual(3 * MIB - (256 << 10));
    expect(taken).toBeLessThanOrEqual(3 * MIB);
  });
});

describe("pull() with mirrors", () => {
  const flipAt = (at: number) => (body: Bytes, first: number) => {
    const copy = body.slice();
    if (at >= first && at < first + copy.byteLength) copy[at - first] = (copy[at - first] as number) ^ 1;
    return copy;
  };

  it("heals a damaged page from another one", async () => {
    const damage = flipAt(PAGED.byteLength - 100);
    const [bad, good] = [await serve({ "m.aero": PAGED }), await serve({ "m.aero": PAGED })];
    bad.setFault(({ range }) => ({ body: (body) => damage(body, range?.[0] ?? 0) }));
    const to = folder();
    await pullInto(to, { url: `${bad.url}m.aero`, mirrors: [good.url] });
    expect(holds(to, "m.aero", PAGED)).toBe(true);
    const alone = pullInto(folder(), { url: `${bad.url}m.aero` });
    await expect(alone).rejects.toMatchObject({ code: "integrity/pull.page", at: { offset: expect.any(Number) } });
  });

  it("goes on with the others when one dies", async () => {
    const [dying, good] = [await startFileServer({ "m.aero": PAGED }), await serve({ "m.aero": PAGED })];
    dying.setFault(({ index }) => (index >= 1 ? { status: 503 } : undefined));
    const to = folder();
    await pullInto(to, { url: `${dying.url}m.aero`, mirrors: [`${good.url}m.aero`] });
    expect(holds(to, "m.aero", PAGED)).toBe(true);
    await dying.close();
    // Not even the first request is answered: the index would be missing, but a part is found elsewhere.
    const files = setOf({ "p.aero": PAGED }, aeroFile(noise(400, 5)));
    const partial = await serve({ "model.aeroset.json": files["model.aeroset.json"] as Bytes });
    const whole = await serve(files);
    const set = folder();
    await pullInto(set, { url: `${partial.url}model.aeroset.json`, mirrors: [whole.url] });
    expect(holds(set, "p.aero", PAGED)).toBe(true);
  });

  it("gives a slow one less to do", async () => {
    const [slow, fast] = [await serve({ "m.aero": PAGED }), await serve({ "m.aero": PAGED })];
    slow.setFault(({ index }) => (index >= 1 ? { bytesPerSecond: MIB } : undefined));
    const to = folder();
    await pullInto(to, { url: `${slow.url}m.aero`, mirrors: [fast.url] });
    expect(slow.servedBytes).toBeLessThan(PAGED.byteLength / 2);
    expect(holds(to, "m.aero", PAGED)).toBe(true);
  });

  it("never mixes copies that cannot be compared", async () => {
    const [first, other] = [await serve({ "m.bin": PLAIN }), await serve({ "m.bin": noise(PLAIN.byteLength, 5) })];
    const to = folder();
    await pullInto(to, { url: `${first.url}m.bin`, mirrors: [other.url] });
    expect(holds(to, "m.bin", PLAIN)).toBe(true);
    expect(other.requests).toEqual([]);
  });
});
