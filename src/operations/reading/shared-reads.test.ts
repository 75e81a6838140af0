import { expect, test } from "vitest";
import { SharedReads } from "./loader.ts";

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

test("two callers at a time cause one read, a later one the next", async () => {
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

test("a caller that leaves does not take the read from the others; the last one ends it", async () => {
  const { reads, seen, read } = pendingReads();
  const aborts = [new AbortController(), new AbortController()];
  const [first, second] = aborts.map(({ signal }) => reads.run("a", signal, read));
  aborts[0]?.abort("first gone");
  await expect(first).rejects.toBe("first gone");
  expect(seen[0]?.signal.aborted).toBe(false);
  aborts[1]?.abort("second gone");
  await expect(second).rejects.toBe("second gone");
  expect(seen[0]?.signal.aborted).toBe(true);
  // What was given up is not handed to whoever asks next.
  const third = reads.run("a", undefined, read);
  seen[1]?.finish("fresh");
  expect(await third).toBe("fresh");
});

test("an error reaches everybody who waits, and is not kept", async () => {
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
