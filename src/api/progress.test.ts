import { expect, test } from "vitest";
import type { Progress } from "./options.ts";
import { startProgress } from "./progress.ts";

test("the first event says that nothing is done, the last that everything is, and few come between", () => {
  const events: Progress[] = [];
  let time = 0;
  const meter = startProgress(
    { label: "writing", total: 1000 },
    (event) => events.push(event),
    () => time,
  );
  for (let i = 0; i < 1000; i++) {
    time += 1;
    meter.add(1);
  }
  meter.end();
  meter.end();
  expect(events[0]).toEqual({ type: "progress", label: "writing", done: 0, total: 1000, bytesPerSecond: 0 });
  expect(events.at(-1)).toEqual({ type: "progress", label: "writing", done: 1000, total: 1000, bytesPerSecond: 1000 });
  expect(events).toHaveLength(12);
});

test("an unknown total is null until the job is done", () => {
  const events: Progress[] = [];
  const meter = startProgress(
    { label: "verifying" },
    (event) => events.push(event),
    () => 0,
  );
  meter.add(7);
  meter.end();
  expect(events.map(({ done, total }) => [done, total])).toEqual([
    [0, null],
    [7, 7],
  ]);
});

test.each([
  [5, 10, 10],
  [15, 10, 15],
])("a job that turned out to be %i of %i ends with all of it done", (bytes, total, end) => {
  const events: Progress[] = [];
  const meter = startProgress(
    { label: "reading values", total },
    (event) => events.push(event),
    () => 0,
  );
  meter.add(bytes);
  meter.end();
  expect(events.at(-1)).toMatchObject({ done: end, total: end });
});

test("what listens to the last event cannot make a call fail whose work is done", () => {
  const meter = startProgress({ label: "writing", total: 1 }, ({ done }) => {
    if (done === 1) throw new Error("mine");
  });
  expect(() => meter.end()).not.toThrow();
});
