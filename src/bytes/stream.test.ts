import { expect, test } from "vitest";
import { collectStream, streamSink } from "./stream.ts";

const bytes = (...values: number[]): Uint8Array<ArrayBuffer> => new Uint8Array(values);

function streamOf(...pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

test("a stream is collected whole", async () => {
  expect(await collectStream(streamOf(bytes(1, 2), bytes(), bytes(3)), { maxBytes: 3 })).toEqual(bytes(1, 2, 3));
});

test("a stream beyond the limit is cancelled and refused", async () => {
  let cancelled: unknown;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(1000)),
    cancel(reason) {
      cancelled = reason;
    },
  });
  await expect(collectStream(endless, { maxBytes: 4500 })).rejects.toMatchObject({ code: "limit/memory" });
  expect(cancelled).toMatchObject({ code: "limit/memory" });
});

test("a stream that falls silent ends with its signal", async () => {
  const silent = new ReadableStream<Uint8Array>();
  const controller = new AbortController();
  const collected = collectStream(silent, { maxBytes: 10, signal: controller.signal });
  controller.abort(new Error("enough"));
  await expect(collected).rejects.toThrow("enough");
});

test("a stream that fails is a source error with the reason", async () => {
  const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new TypeError("no line")) });
  await expect(collectStream(broken, { maxBytes: 10 })).rejects.toMatchObject({
    code: "source/stream",
    message: "Cannot read the stream: no line",
  });
});

test("a sink writes in order, closes at the end, and lets go of the caller's buffer", async () => {
  const pieces: number[] = [];
  let state = "open";
  const target = new WritableStream<Uint8Array>({
    write: (piece) => void pieces.push(...piece),
    close() {
      state = "closed";
    },
  });
  const sink = streamSink(target);
  const buffer = bytes(1, 2);
  const first = sink.append(buffer);
  const second = sink.append(bytes(3));
  expect(sink.position).toBe(3);
  await first;
  buffer.fill(9);
  await second;
  await sink.commit();
  expect([pieces, state]).toEqual([[1, 2, 3], "closed"]);
  await expect(sink.append(bytes(4))).rejects.toMatchObject({ code: "usage/sink.done" });
});

test("a sink that is given up aborts its stream, once", async () => {
  let aborts = 0;
  const sink = streamSink(new WritableStream({ abort: () => void aborts++ }));
  await sink.append(bytes(1));
  await sink.abort();
  await sink.abort();
  expect(aborts).toBe(1);
});

test("a stream that takes no more is a source error", async () => {
  const full = new WritableStream({
    write: () => Promise.reject(new Error("disk full")),
  });
  await expect(streamSink(full).append(bytes(1))).rejects.toMatchObject({ code: "source/stream" });
});
