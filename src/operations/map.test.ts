import { expect, it } from "vitest";
import { memorySource } from "../bytes/memory.ts";
import { idleRuns, type LayoutRow } from "./map.ts";

it("looks at every row a fixed number of times, however many parts a model has", () => {
  const source = memorySource(new Uint8Array(16), "part");
  const parts = Array.from({ length: 2000 }, (_, i) => ({ label: `p${i}`, byteLength: 16, source }));
  let looks = 0;
  const rows = parts.flatMap((_, part): LayoutRow[] => [
    counted({ part, offset: 0, byteLength: 8, kind: "tensor", name: "t" }),
    counted({ part, offset: 8, byteLength: 8, kind: "gap", name: "unused" }),
  ]);
  function counted(row: LayoutRow): LayoutRow {
    return new Proxy(row, {
      get(target, key) {
        looks++;
        return Reflect.get(target, key);
      },
    });
  }
  const idle = idleRuns(rows, parts);
  expect(idle.map((runs) => runs.map(({ name }) => name))).toEqual(parts.map(() => ["unused"]));
  expect(looks).toBeLessThan(20 * rows.length);
});
