import { describe, expect, it } from "vitest";
import { enableRelaxedSimd } from "../../platform/node/verbs/embed.ts";
import { type BoundKernels, bindShared, loadEncoderKernels } from "./kernels.ts";
import type { EncoderKernels } from "./kernels-scalar.ts";
import type { KernelKind } from "./shape.ts";

enableRelaxedSimd();

const BYTES = 1 << 20;
/** Separate places in the memory: inputs, weights, outputs, scratch. */
const [A, B, BIAS, C, SCRATCH] = [64, 256 << 10, 512 << 10, 576 << 10, 832 << 10];

const PATTERN = Float32Array.from({ length: BYTES / 4 }, (_, i) => Math.sin(i * 12.9898) * 2);

function fill(buffer: ArrayBuffer | SharedArrayBuffer): void {
  new Float32Array(buffer).set(PATTERN);
}

const loaded = new Map<KernelKind, Promise<BoundKernels>>();

function kernelsOf(kind: KernelKind): Promise<BoundKernels> {
  const known = loaded.get(kind) ?? loadEncoderKernels({ kind, byteLengthFor: () => BYTES, memory: "private" });
  loaded.set(kind, known);
  return known;
}

/** The result in C of a call, by the kernel under test and by the scalar one. */
async function both(
  kind: "relaxed" | "simd",
  count: number,
  call: (kernels: EncoderKernels, bound: BoundKernels) => void,
): Promise<readonly [Float32Array, Float32Array]> {
  const run = async (own: KernelKind): Promise<Float32Array> => {
    const bound = await kernelsOf(own);
    fill(bound.buffer);
    call(bound.kernels, bound);
    return new Float32Array(bound.buffer.slice(C, C + 4 * count) as ArrayBuffer);
  };
  return [await run(kind), await run("scalar")];
}

function expectClose([found, expected]: readonly [Float32Array, Float32Array], tolerance: number): void {
  let most = 0;
  for (let i = 0; i < expected.length; i++) {
    const [x, y] = [found[i] as number, expected[i] as number];
    most = Math.max(most, Math.abs(x - y) / Math.max(1, Math.abs(y)));
    if (Number.isNaN(x)) most = Number.NaN;
  }
  expect(most).toBeLessThan(tolerance);
}

/** Where `multiplyBytes` puts weights before they are packed. */
const WEIGHTS = B + 8192;

/** Sentences of rows of 32 floats at A, in digits, times 16 columns of bytes; C's rows are 20 floats apart. */
function multiplyBytes(
  kernels: EncoderKernels,
  buffer: ArrayBuffer | SharedArrayBuffer,
  lengths: readonly number[],
  mode: number,
): void {
  const weights = new Int8Array(buffer, WEIGHTS, 16 * 32);
  for (let i = 0; i < weights.length; i++) weights[i] = ((i * 89) % 256) - 128;
  const [sums, table, outliers] = [B + 16384, SCRATCH + 4096, SCRATCH + 8192];
  for (const panel of [0, 1]) kernels.packPanelBytes(WEIGHTS + panel * 256, 32, 8, 32, 32, panel, B, sums);
  let [first, digits] = [0, 0];
  for (const length of lengths) {
    const place = [SCRATCH + digits * 32, table + digits * 16] as const;
    kernels.quantizeBytes(A + first * 128, 128, first, length, 32, ...place, outliers);
    first += length;
    digits += length + Math.min(length, 2);
  }
  kernels.gemmBytes(SCRATCH, table, outliers, digits, 32, B, 16, BIAS, sums, BIAS, C, 80, mode);
}

describe.each(["relaxed", "simd"] as const)("the %s kernels agree with the scalar ones:", (kind) => {
  it.each([1, 2, 3, 4, 5, 6, 7, 11, 13])("gemm() of %d rows, with every start of the sums", async (m) => {
    for (const mode of [0, 1, 2, 3]) {
      const call = (kernels: EncoderKernels): void => kernels.gemm(A, 96, m, 24, B, 16, BIAS, C, 80, mode);
      expectClose(await both(kind, 20 * m, call), 1e-5);
    }
  });

  it("gemm() of columns in several blocks", async () => {
    const call = (kernels: EncoderKernels): void => kernels.gemm(A, 4320, 7, 1080, B, 24, BIAS, C, 96, 3);
    expectClose(await both(kind, 24 * 7, call), 1e-4);
  });

  it.each([
    [8, 24],
    [5, 22],
    [8, 1033],
    [1, 3],
  ])("packPanel() of %d rows and %d values, with zeros after them", async (rows, k) => {
    const depth = Math.ceil(k / 8) * 8;
    const call = (kernels: EncoderKernels): void => kernels.packPanel(A, 4 * k + 8, rows, k, depth, 16, 1, C);
    const [found, expected] = await both(kind, 16 * depth, call);
    expect(found).toEqual(expected);
  });

  it.each([1, 4, 9])("gemmInt8() of %d rows, exact except for the last rounding", async (m) => {
    const call = (kernels: EncoderKernels, { buffer }: BoundKernels): void => {
      const shorts = new Int16Array(buffer, B, 24 * 16);
      for (let i = 0; i < shorts.length; i++) shorts[i] = ((i * 89) % 255) - 127;
      kernels.quantizeRows(A, 96, m, 24, SCRATCH, SCRATCH + 4096, 4095);
      kernels.gemmInt8(SCRATCH, SCRATCH + 4096, m, 24, B, 16, BIAS, BIAS, C, 80, 3);
    };
    expectClose(await both(kind, 20 * m, call), 1e-3);
  });

  it("packPanelInt8() of five rows of 7 bytes", async () => {
    const call = (kernels: EncoderKernels): void => kernels.packPanelInt8(A, 9, 5, 7, 8, 1, C);
    const [found, expected] = await both(kind, 64, call);
    expect(found).toEqual(expected);
  });

  it("packPanelBytes() of five rows of 7 bytes, with their sums", async () => {
    const call = (kernels: EncoderKernels, { buffer }: BoundKernels): void => {
      kernels.packPanelBytes(A, 9, 5, 7, 8, 1, C, C + 256);
      const sums = new Float32Array(buffer, C + 256 + 32, 5);
      const own = new Int8Array(buffer, A + 18, 7).reduce((sum, weight) => sum + weight, 0);
      expect(sums[2]).toBe(own);
    };
    const [found, expected] = await both(kind, 128, call);
    expect(found).toEqual(expected);
  });

  it.each([[[1]], [[2]], [[3, 1]], [[9]], [[4, 16, 2]]])(
    "quantizeBytes() and gemmBytes() of sentences of %o rows",
    async (lengths) => {
      for (const mode of [0, 1, 2, 3]) {
        const call = (kernels: EncoderKernels, { buffer }: BoundKernels): void => {
          const floats = new Float32Array(buffer);
          // One value in every row that is far from the others.
          for (let row = 0; row < 22; row++) floats[A / 4 + row * 32 + ((row * 5) % 32)] = row % 2 ? 90 : -70;
          multiplyBytes(kernels, buffer, lengths, mode);
        };
        expectClose(await both(kind, 20 * 22, call), 1e-4);
      }
    },
  );

  it("gemmBytes() is near the product of the floats, also with outliers", async () => {
    const { kernels, buffer } = await kernelsOf(kind);
    fill(buffer);
    const floats = new Float32Array(buffer);
    for (let row = 0; row < 9; row++) floats[A / 4 + row * 32 + 3 * row] = 90;
    multiplyBytes(kernels, buffer, [9], 0);
    const weights = new Int8Array(buffer, WEIGHTS, 16 * 32);
    for (let row = 0; row < 9; row++) {
      for (let column = 0; column < 16; column++) {
        let sum = 0;
        for (let i = 0; i < 32; i++)
          sum += (floats[A / 4 + row * 32 + i] as number) * (weights[column * 32 + i] as number);
        const found = (floats[C / 4 + row * 20 + column] as number) / (floats[BIAS / 4 + column] as number);
        // Steps are 92 / 16383 at the ends and 4 / 127 between. Without the list of outliers they would be 92 / 127.
        expect(Math.abs(found - sum)).toBeLessThan(row === 0 || row === 8 ? 3 : 20);
      }
    }
  });

  it.each([1e-30, 0])("quantizeBytes() lists no more outliers than there is room for, values %d", async (value) => {
    const { kernels, buffer } = await kernelsOf(kind);
    fill(buffer);
    const floats = new Float32Array(buffer);
    floats.fill(value, A / 4, A / 4 + 96);
    floats[A / 4 + 40] = 3 * value;
    const end = SCRATCH + 8192 + 16 * (1 + 2);
    const behind = floats[end / 4];
    kernels.quantizeBytes(A, 128, 0, 3, 32, SCRATCH, SCRATCH + 4096, SCRATCH + 8192);
    expect(new Uint32Array(buffer)[(SCRATCH + 8192) / 4]).toBeLessThanOrEqual(2);
    expect(floats[end / 4]).toBe(behind);
  });

  it.each([1, 7, 8, 50, 120])("attend() over %d tokens", async (tokens) => {
    const call = (kernels: EncoderKernels): void => kernels.attend(A, 196, tokens, 2, 8, 0.35, C, 64, SCRATCH);
    expectClose(await both(kind, 16 * tokens, call), 1e-5);
  });

  it("attend() if one score leaves nothing for the others", async () => {
    const call = (kernels: EncoderKernels): void => kernels.attend(A, 96, 3, 1, 8, 4000, C, 32, SCRATCH);
    expectClose(await both(kind, 24, call), 1e-5);
  });

  it("normalizeRows() of 20 values in rows of 24", async () => {
    const call = (kernels: EncoderKernels, { buffer }: BoundKernels): void => {
      const floats = new Float32Array(buffer);
      for (let row = 0; row < 3; row++) floats.fill(0, C / 4 + row * 24 + 20, C / 4 + (row + 1) * 24);
      floats.fill(0, BIAS / 4 + 20, BIAS / 4 + 24);
      kernels.normalizeRows(C, 96, 3, 20, 24, BIAS, BIAS, 1e-5);
    };
    expectClose(await both(kind, 72, call), 1e-5);
  });

  it.each([0, 1, 2])("activate() of kind %d from -12 to 12", async (activation) => {
    const call = (kernels: EncoderKernels, { buffer }: BoundKernels): void => {
      const floats = new Float32Array(buffer, C, 4000);
      for (let i = 0; i < 4000; i++) floats[i] = (i - 2000) * 0.006;
      kernels.activate(C, 8000, 2, 2000, activation);
    };
    expectClose(await both(kind, 4000, call), 1e-6);
  });

  it("widenHalves() and widenBrains() of every pattern", async () => {
    for (const name of ["widenHalves", "widenBrains"] as const) {
      const call = (kernels: EncoderKernels, { buffer }: BoundKernels): void => {
        const patterns = new Uint16Array(buffer, A, 65536);
        for (let i = 0; i < 65536; i++) patterns[i] = i;
        kernels[name](A, 65536, C);
      };
      const [found, expected] = await both(kind, 65536, call);
      const differs = found.findIndex((value, i) => !Object.is(value, expected[i]));
      expect(differs).toBe(-1);
    }
  });

  it("addRows() of a table", async () => {
    const call = (kernels: EncoderKernels): void => kernels.addRows(C, 80, 5, 16, B);
    const [found, expected] = await both(kind, 100, call);
    expect(found).toEqual(expected);
  });
});

describe("loadEncoderKernels()", () => {
  it("takes the fused kernel if it runs, and zeroed memory of the requested length", async () => {
    const { kind, buffer } = await loadEncoderKernels({ kind: "auto", byteLengthFor: () => 70_000, memory: "private" });
    expect(kind).toBe("relaxed");
    expect(buffer.byteLength).toBeGreaterThanOrEqual(70_000);
    expect(new Uint8Array(buffer).every((byte) => byte === 0)).toBe(true);
  });

  it("lets another instance compute in shared memory", async () => {
    const own = await loadEncoderKernels({ kind: "simd", byteLengthFor: () => BYTES, memory: "shared" });
    if (own.shared === undefined) throw new Error("memory is not shared");
    const other = await bindShared("simd", structuredClone(own.shared));
    fill(own.buffer);
    other.kernels.addRows(C, 16, 1, 4, A);
    const expected = Math.fround((PATTERN[C / 4] as number) + (PATTERN[A / 4] as number));
    expect(new Float32Array(own.buffer, C, 1)[0]).toBe(expected);
  });
});
