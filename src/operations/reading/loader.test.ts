import { describe, expect, test } from "vitest";
import { aprBlocks, buildApr, literalBlock } from "../../../test/builders/apr.ts";
import { adjacentTensors, memoryModel } from "../../../test/builders/tensors.ts";
import { patternBytes } from "../../../test/contracts/source-contract.ts";
import { type CountingSource, countingSource } from "../../../test/support/counting-source.ts";
import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { Model } from "../../model/model.ts";
import { openSource } from "../../open.ts";
import { createLoader, type Loader, SharedReads } from "./loader.ts";

const BYTES = patternBytes(10_000);
const TAIL = Uint8Array.of(7, 8, 9);

/** Gives copies, as files and servers do, and fails or waits on request. */
class SlowSource implements Source {
  readonly label = "slow";
  readonly byteLength = BYTES.byteLength;
  readonly of = memorySource(BYTES);
  failures = 0;
  reads = 0;
  current = 0;
  most = 0;

  async read(offset: number, byteLength: number, { signal }: ReadOptions = {}): Promise<Bytes> {
    this.reads++;
    this.current += byteLength;
    this.most = Math.max(this.most, this.current);
    await new Promise((resolve) => setTimeout(resolve, 1));
    this.current -= byteLength;
    signal?.throwIfAborted();
    if (this.failures > 0) {
      this.failures--;
      throw new SourceError("source/io", "Cannot read: told to fail", { source: this.label });
    }
    return (await this.of.read(offset, byteLength)).slice();
  }

  stream(offset: number, options?: StreamOptions): AsyncIterable<Bytes> {
    return this.of.stream(offset, options);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Ten tensors t0 … t9 of 1000 bytes each. */
function slowLoader(maxBytes: number): { readonly loader: Loader; readonly source: SlowSource } {
  const source = new SlowSource();
  const model = memoryModel(adjacentTensors(source, Array(10).fill(1000)));
  return { loader: createLoader(async () => model, { maxBytes }), source };
}

const part = (i: number): Bytes => BYTES.slice(i * 1000, (i + 1) * 1000);

describe("createLoader()", () => {
  test("opens on first use, once, and again after a failure", async () => {
    let calls = 0;
    const loader = createLoader(async () => {
      if (++calls === 1) throw new SourceError("source/io", "Cannot open: told to fail", { source: "x" });
      return memoryModel([]);
    });
    expect(calls).toBe(0);
    await expect(loader.loadMetadata()).rejects.toMatchObject({ code: "source/io" });
    await Promise.all([loader.loadMetadata(), loader.loadIndex()]);
    expect(calls).toBe(2);
  });

  test("reads an APR file's metadata and index in one read, and no tensor before it is requested", async () => {
    const data = patternBytes(500_000);
    const file = buildApr({
      tensors: [
        { name: "a", dims: [500_000], data },
        { name: "b", dims: [3], data: TAIL },
      ],
    });
    const source: CountingSource = countingSource(memorySource(file, "m.apr"));
    const open = async (): Promise<Model> => (await openSource(source, { name: "m.apr" })).container as Model;
    const loader = createLoader(open);
    expect(source.calls).toEqual([]);
    expect((await loader.loadMetadata()).text("model_type")).toBe("test");
    expect((await loader.loadIndex()).map(({ name }) => name)).toEqual(["a", "b"]);
    expect(source.calls).toMatchObject([{ offset: 0, byteLength: 65536 }]);
    expect(await loader.loadTensor("b")).toEqual(TAIL);
    expect(source.calls).toHaveLength(2);
    await loader.close();
  });

  test("reads at most the budget at once, for any number of callers", async () => {
    const { loader, source } = slowLoader(2500);
    const all = await Promise.all(Array.from({ length: 10 }, (_, i) => loader.loadTensor(`t${i}`)));
    expect(all).toEqual(Array.from({ length: 10 }, (_, i) => part(i)));
    expect(source.most).toBe(2000);
    expect(loader.usedBytes).toBe(0);
  });

  test("refuses a tensor beyond the budget, and reads it in parts", async () => {
    const { loader } = slowLoader(999);
    await expect(loader.loadTensor("t3")).rejects.toMatchObject({ name: "LimitError", code: "limit/loader" });
    expect(await loader.tensorSlice("t3", { offset: 10, byteLength: 20 })).toEqual({
      bytes: part(3).slice(10, 30),
      storage: "copy",
    });
    const pieces: number[] = [];
    for await (const piece of loader.streamTensor("t3")) pieces.push(...piece);
    expect(Uint8Array.from(pieces)).toEqual(part(3));
  });

  test("reads a tensor once for all concurrent callers", async () => {
    const { loader, source } = slowLoader(5000);
    const both = await Promise.all([loader.loadTensor("t1"), loader.loadTensor("t1")]);
    expect(both).toEqual([part(1), part(1)]);
    expect(source.reads).toBe(1);
    expect(loader.usedBytes).toBe(0);
  });

  test("stops waiting for room when it is aborted", async () => {
    const { loader } = slowLoader(1000);
    const first = loader.loadTensor("t0");
    const reason = new Error("enough");
    const abort = new AbortController();
    const second = loader.loadTensor("t1", { signal: abort.signal });
    abort.abort(reason);
    await expect(second).rejects.toBe(reason);
    expect(await first).toEqual(part(0));
  });
});

describe("prefetch()", () => {
  test("fetches tensors in advance; reading them then costs nothing", async () => {
    const { loader, source } = slowLoader(5000);
    const reading = loader.prefetch(["t1", "t2", "t1"]);
    // A call in the meantime waits for the prefetch instead of reading again.
    expect(await loader.loadTensor("t2")).toEqual(part(2));
    await reading;
    expect(loader.usedBytes).toBe(2000);
    source.failures = 100;
    expect(await loader.loadTensor("t1")).toEqual(part(1));
    expect(await loader.tensorSlice("t1", { offset: 5 })).toEqual({ bytes: part(1).slice(5), storage: "view" });
  });

  test("stays within the budget: takes what fits, drops the least recently used", async () => {
    const { loader, source } = slowLoader(3000);
    await loader.prefetch(["t0", "t1", "t2", "t3", "t4"]);
    expect(loader.usedBytes).toBe(3000);
    expect(source.most).toBeLessThanOrEqual(3000);
    await loader.loadTensor("t0");
    await loader.prefetch(["t7"]);
    expect(loader.usedBytes).toBe(3000);
    source.failures = 1;
    expect(await loader.loadTensor("t0")).toEqual(part(0));
    await expect(loader.loadTensor("t1")).rejects.toMatchObject({ code: "source/io" });
  });

  test("leaves errors, also of unknown names, to the call that needs the tensor", async () => {
    const { loader, source } = slowLoader(3000);
    source.failures = 1;
    await loader.prefetch(["t0"]);
    expect(loader.usedBytes).toBe(0);
    expect(await loader.loadTensor("t0")).toEqual(part(0));
    await loader.prefetch(["t1", "none"]);
    expect(loader.usedBytes).toBe(1000);
    await expect(loader.loadTensor("none")).rejects.toMatchObject({ code: "usage/tensor-not-found" });
  });
});

describe("tensorSlice()", () => {
  test("is a view of a file in memory, for any budget", async () => {
    const file = buildApr({ tensors: [{ name: "a", dims: [300_000], data: patternBytes(300_000) }] });
    const open = async (): Promise<Model> => (await openSource(memorySource(file))).container as Model;
    const loader = createLoader(open, { maxBytes: 1000 });
    const { bytes, storage } = await loader.tensorSlice("a");
    expect(storage).toBe("view");
    expect(bytes.buffer).toBe(file.buffer);
    expect(bytes.byteLength).toBe(300_000);
  });

  test("is a copy if the tensor has to be decompressed", async () => {
    const raw = patternBytes(100);
    const data = aprBlocks(literalBlock(raw));
    const file = buildApr({ flags: 3, tensors: [{ name: "a", dims: [100], data, rawSize: 100, flags: 1 }] });
    const loader = createLoader(async () => (await openSource(memorySource(file))).container as Model);
    const { bytes } = await loader.tensorSlice("a", { offset: 50 });
    expect(bytes).toEqual(raw.slice(50));
    expect(bytes.buffer).not.toBe(file.buffer);
    expect([...(await loader.loadFloat32("a"))].slice(0, 3)).toEqual([...raw.subarray(0, 3)]);
  });
});

function pendingReads() {
  const reads = new SharedReads<string>();
  const seen: { readonly signal: AbortSignal; readonly finish: (value: string) => void }[] = [];
  const read = (signal: AbortSignal): Promise<string> =>
    new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      seen.push({ signal, finish: resolve });
    });
  return { reads, seen, read };
}

test("two concurrent callers cause one read, a later one another", async () => {
  const { reads, seen, read } = pendingReads();
  const both = [reads.run("a", undefined, read), reads.run("a", undefined, read)];
  const other = reads.run("b", undefined, read);
  seen[0]?.finish("one");
  seen[1]?.finish("two");
  expect(await Promise.all([...both, other])).toEqual(["one", "one", "two"]);
  const later = reads.run("a", undefined, read);
  expect(seen).toHaveLength(3);
  seen[2]?.finish("three");
  expect(await later).toBe("three");
});

test("a caller that leaves does not end the read for the others; the last one does", async () => {
  const { reads, seen, read } = pendingReads();
  const aborts = [new AbortController(), new AbortController()];
  const [first, second] = aborts.map(({ signal }) => reads.run("a", signal, read));
  aborts[0]?.abort("first gone");
  await expect(first).rejects.toBe("first gone");
  expect(seen[0]?.signal.aborted).toBe(false);
  aborts[1]?.abort("second gone");
  await expect(second).rejects.toBe("second gone");
  expect(seen[0]?.signal.aborted).toBe(true);
  // A cancelled read is not given to the next caller.
  const third = reads.run("a", undefined, read);
  seen[1]?.finish("fresh");
  expect(await third).toBe("fresh");
});

test("an error reaches all waiting callers, and is not kept", async () => {
  const reads = new SharedReads<string>();
  let calls = 0;
  const read = async (): Promise<string> => {
    if (calls++ === 0) throw new Error("no");
    return "yes";
  };
  const results = await Promise.allSettled([reads.run("a", undefined, read), reads.run("a", undefined, read)]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await reads.run("a", undefined, read)).toBe("yes");
});
