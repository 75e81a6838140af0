import { describe, expect, it } from "vitest";
import { buildAero, smallAero } from "../../test/builders/aero.ts";
import { buildApr } from "../../test/builders/apr.ts";
import { buildGguf, byteTensor } from "../../test/builders/gguf.ts";
import { type Bytes, concatBytes } from "../base/bytes.ts";
import { memorySource } from "../bytes/memory.ts";
import { openSource } from "../open.ts";
import { portableEngine } from "../primitives/portable.ts";
import { type LayoutRow, mapLayout } from "./map.ts";
import { idleRuns } from "./reading/unclaimed.ts";
import { verify } from "./verify.ts";

it("looks at every row a fixed number of times, for any number of parts", () => {
  const source = memorySource(new Uint8Array(16), "part");
  const parts = Array.from({ length: 2000 }, (_, i) => ({ label: `p${i}`, byteLength: 16, source }));
  let looks = 0;
  const rows = parts.flatMap((_, part): LayoutRow[] => [
    counted({ part, offset: 0, byteLength: 8, kind: "tensor", name: "t" }),
    counted({ part, offset: 8, byteLength: 8, kind: "gap", name: "unclaimed" }),
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
  expect(idle.map((runs) => runs.map(({ name }) => name))).toEqual(parts.map(() => ["unclaimed"]));
  expect(looks).toBeLessThan(20 * rows.length);
});

describe("bytes that belong to nothing", () => {
  const look = async (bytes: Bytes): Promise<{ rows: readonly LayoutRow[]; told: readonly string[] }> => {
    const opened = await openSource(memorySource(bytes, "model"));
    const { findings } = await verify(opened, { level: "full", engine: portableEngine() });
    return { rows: mapLayout(opened), told: findings.map(({ severity, code }) => `${severity} ${code}`) };
  };
  const extended = (bytes: Bytes, more: Bytes): Bytes => concatBytes([bytes, more]);
  const small = buildAero({ chunks: smallAero() });

  it("are unclaimed after the last part, however few they are", async () => {
    const { rows, told } = await look(extended(small, new Uint8Array(18).fill(7)));
    expect(rows.at(-1)).toMatchObject({ kind: "gap", name: "unclaimed", byteLength: 18 });
    expect(told).toEqual(["warning format/unclaimed"]);
    expect((await look(extended(small, new Uint8Array(18)))).told).toEqual(["note format/unclaimed"]);
    expect((await look(small)).told).toEqual([]);
  });

  it("are told once where the format has words of its own", async () => {
    const gguf = buildGguf({ tensors: [byteTensor("a", 32, 0)], data: new Uint8Array(64) });
    const { rows, told } = await look(gguf);
    expect(rows.at(-1)).toMatchObject({ kind: "gap", byteLength: 32 });
    expect(told).toEqual(["warning format/gguf.trailing-bytes"]);
  });

  it("are padding between two parts, which is zero", async () => {
    const padding = (await look(small)).rows.find(({ kind }) => kind === "padding");
    const filled = small.slice();
    filled[padding?.offset ?? 0] = 1;
    expect((await look(filled)).told).toEqual(["note format/padding"]);
    const gguf = buildGguf({ tensors: [byteTensor("a", 20, 0)], data: new Uint8Array(32).fill(9) });
    expect((await look(gguf)).told).toEqual(["note format/gguf.padding"]);
  });

  it("are no padding where they are longer than the alignment", async () => {
    const gguf = buildGguf({
      tensors: [byteTensor("a", 32, 0), byteTensor("b", 32, 128)],
      data: new Uint8Array(160).fill(1),
    });
    const { rows, told } = await look(gguf);
    expect(rows.filter(({ kind }) => kind === "gap")).toMatchObject([{ byteLength: 96 }]);
    expect(told).toContain("warning format/unclaimed");
    const apr = buildApr({ tensors: [] });
    expect((await look(apr)).rows.every(({ kind, byteLength }) => kind !== "padding" || byteLength < 64)).toBe(true);
  });
});
