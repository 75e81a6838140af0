import { describe, expect, test } from "vitest";
import { sourceContract } from "../../test/contracts/source-contract.ts";
import { blobSource } from "./blob.ts";

sourceContract("blob", async (bytes) => ({ source: blobSource(new Blob([bytes])) }));

describe("blobSource()", () => {
  test("takes the name of a File as its label", () => {
    const file = Object.assign(new Blob([]), { name: "model.gguf" });
    expect(blobSource(file).label).toBe("model.gguf");
    expect(blobSource(new Blob([])).label).toBe("blob");
    expect(blobSource(file, "other").label).toBe("other");
  });
  test("has a descriptor that workers can use", () => {
    const blob = new Blob(["x"]);
    expect(blobSource(blob).descriptor).toEqual({ kind: "blob", blob });
  });
  test("reports a file that was changed on disk", async () => {
    const broken = {
      size: 10,
      slice: () => ({ arrayBuffer: () => Promise.reject(new DOMException("gone", "NotReadableError")) }),
    } as unknown as Blob;
    const read = blobSource(broken).read(2, 3);
    await expect(read).rejects.toMatchObject({ name: "SourceError", code: "source/changed", at: { offset: 2 } });
  });

  /** Three bytes, then an end or a failure, from a stream that brings its own buffers. */
  const streaming = (end: (controller: ReadableStreamDefaultController) => void): Blob => {
    const start = (controller: ReadableStreamDefaultController): void => {
      controller.enqueue(Uint8Array.of(1, 2, 3));
      end(controller);
    };
    return { size: 10, slice: () => ({ stream: () => new ReadableStream({ start }) }) } as unknown as Blob;
  };
  const drain = async (blob: Blob): Promise<number[]> => {
    const seen: number[] = [];
    for await (const piece of blobSource(blob).stream(4)) seen.push(...piece);
    return seen;
  };

  test("a stream that breaks or ends too soon is a changed file, never a short one", async () => {
    const broken = drain(streaming((controller) => controller.error(new DOMException("gone", "NotReadableError"))));
    await expect(broken).rejects.toMatchObject({ code: "source/changed" });
    const short = drain(streaming((controller) => controller.close()));
    await expect(short).rejects.toMatchObject({ code: "source/changed", at: { offset: 7 } });
  });
});
