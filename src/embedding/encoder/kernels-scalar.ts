import { halfValues } from "../../primitives/quant/half.ts";
import {
  scalarGemm,
  scalarGemmBytes,
  scalarGemmInt8,
  scalarPackPanel,
  scalarPackPanelBytes,
  scalarQuantizeBytes,
  type Views,
} from "./kernels-scalar-gemm.ts";

/**
 * The kernels over one memory. Pointers and strides are in bytes, widths in values. The many arguments are those of the
 * compiled functions, which are called directly.
 */
export interface EncoderKernels {
  gemm(
    a: number,
    lda: number,
    m: number,
    k: number,
    b: number,
    n: number,
    bias: number,
    c: number,
    ldc: number,
    mode: number,
  ): void;
  quantizeRows(a: number, lda: number, m: number, k: number, to: number, scales: number, top: number): void;
  gemmInt8(
    a: number,
    scales: number,
    m: number,
    k: number,
    b: number,
    n: number,
    worth: number,
    bias: number,
    c: number,
    ldc: number,
    mode: number,
  ): void;
  quantizeBytes(
    a: number,
    lda: number,
    first: number,
    m: number,
    k: number,
    to: number,
    table: number,
    outliers: number,
  ): void;
  gemmBytes(
    a: number,
    table: number,
    outliers: number,
    m: number,
    k: number,
    b: number,
    n: number,
    worth: number,
    sums: number,
    bias: number,
    c: number,
    ldc: number,
    mode: number,
  ): void;
  attend(
    qkv: number,
    ldq: number,
    tokens: number,
    heads: number,
    width: number,
    scale: number,
    to: number,
    ldt: number,
    scratch: number,
  ): void;
  packPanel(
    from: number,
    stride: number,
    rows: number,
    k: number,
    depth: number,
    n: number,
    panel: number,
    to: number,
  ): void;
  packPanelInt8(from: number, stride: number, rows: number, k: number, depth: number, panel: number, to: number): void;
  packPanelBytes(
    from: number,
    stride: number,
    rows: number,
    k: number,
    depth: number,
    panel: number,
    to: number,
    sums: number,
  ): void;
  widenHalves(from: number, count: number, to: number): void;
  widenBrains(from: number, count: number, to: number): void;
  addRows(x: number, ldx: number, rows: number, width: number, table: number): void;
  normalizeRows(
    x: number,
    ldx: number,
    rows: number,
    width: number,
    padded: number,
    gain: number,
    shift: number,
    epsilon: number,
  ): void;
  activate(x: number, ldx: number, rows: number, width: number, kind: number): void;
}

/**
 * The kernels of kernels/encoder in TypeScript, with the same layouts: the last resort, and the reference for tests.
 */
export function scalarKernels(buffer: ArrayBuffer): EncoderKernels {
  const floats = new Float32Array(buffer);
  const bytes = new Int8Array(buffer);
  const shorts = new Int16Array(buffer);
  const halves = new Uint16Array(buffer);
  const byteViews = { floats, words: new Uint32Array(buffer), weights: bytes, digits: new Uint8Array(buffer) };
  return {
    gemm: (a, lda, m, k, b, n, bias, c, ldc, mode) =>
      scalarGemm(floats, { a: a / 4, lda: lda / 4, m, k, b: b / 4, n, bias: bias / 4, c: c / 4, ldc: ldc / 4, mode }),
    gemmInt8: (a, scales, m, k, b, n, worth, bias, c, ldc, mode) =>
      scalarGemmInt8(
        { floats, shorts },
        { a: a / 2, lda: k, m, k, b: b / 2, n, bias: bias / 4, c: c / 4, ldc: ldc / 4, mode },
        { rows: scales / 4, columns: worth / 4 },
      ),
    quantizeBytes: (a, lda, first, m, k, to, table, outliers) =>
      scalarQuantizeBytes(byteViews, {
        a: a / 4,
        lda: lda / 4,
        first,
        m,
        k,
        to,
        table: table / 4,
        outliers: outliers / 4,
      }),
    gemmBytes: (a, table, outliers, m, k, b, n, worth, sums, bias, c, ldc, mode) =>
      scalarGemmBytes(
        byteViews,
        { a, lda: k, m, k, b, n, bias: bias / 4, c: c / 4, ldc: ldc / 4, mode },
        { rows: table / 4, columns: worth / 4, outliers: outliers / 4, sums: sums / 4 },
      ),
    packPanelBytes: (from, stride, rows, k, depth, panel, to, sums) =>
      scalarPackPanelBytes(byteViews, { from, stride, rows, k, depth, panel, to, sums: sums / 4 }),
    attend: (qkv, ldq, tokens, heads, width, scale, to, ldt) =>
      scalarAttend(floats, { qkv: qkv / 4, ldq: ldq / 4, tokens, heads, width, scale, to: to / 4, ldt: ldt / 4 }),
    packPanel: (from, stride, rows, k, depth, n, panel, to) =>
      scalarPackPanel(floats, { from: from / 4, stride: stride / 4, rows, k, depth, n, panel, to: to / 4 }),
    packPanelInt8(from, stride, rows, k, depth, panel, to) {
      const at = to / 2 + panel * 8 * depth;
      shorts.fill(0, at, at + 8 * depth);
      for (let row = 0; row < rows; row++) {
        for (let i = 0; i < k; i++) {
          shorts[at + (i >> 1) * 16 + 2 * row + (i & 1)] = bytes[from + row * stride + i] as number;
        }
      }
    },
    quantizeRows: (a, lda, m, k, to, scales, top) =>
      quantize({ floats, shorts }, { a: a / 4, lda: lda / 4, m, k, to: to / 2, scales: scales / 4, top }),
    widenHalves(from, count, to) {
      const table = halfValues();
      for (let i = 0; i < count; i++) floats[to / 4 + i] = table[halves[from / 2 + i] as number] as number;
    },
    widenBrains(from, count, to) {
      const bits = new Uint32Array(buffer, to, count);
      for (let i = 0; i < count; i++) bits[i] = (halves[from / 2 + i] as number) << 16;
    },
    addRows(x, ldx, rows, width, table) {
      for (let row = 0; row < rows; row++) {
        const at = (x + row * ldx) / 4;
        const from = table / 4 + row * width;
        for (let i = 0; i < width; i++) floats[at + i] = (floats[at + i] as number) + (floats[from + i] as number);
      }
    },
    normalizeRows(x, ldx, rows, width, _padded, gain, shift, epsilon) {
      for (let row = 0; row < rows; row++) {
        normalize(floats, { at: (x + row * ldx) / 4, width, gain: gain / 4, shift: shift / 4, epsilon });
      }
    },
    activate(x, ldx, rows, width, kind) {
      const apply = ACTIVATIONS[kind] ?? relu;
      for (let row = 0; row < rows; row++) {
        const at = (x + row * ldx) / 4;
        for (let i = at; i < at + width; i++) floats[i] = apply(floats[i] as number);
      }
    },
  };
}

const ACTIVATIONS: readonly ((x: number) => number)[] = [
  (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  relu,
];

function relu(x: number): number {
  return Math.max(x, 0);
}

/** Abramowitz and Stegun 7.1.26: within 1.5e-7. */
function erf(x: number): number {
  const z = Math.abs(x);
  const t = 1 / (1 + 0.3275911 * z);
  const poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - poly * Math.exp(-z * z));
}

interface Row {
  readonly at: number;
  readonly width: number;
  readonly gain: number;
  readonly shift: number;
  readonly epsilon: number;
}

function normalize(floats: Float32Array, { at, width, gain, shift, epsilon }: Row): void {
  let sum = 0;
  for (let i = 0; i < width; i++) sum += floats[at + i] as number;
  const mean = sum / width;
  let squares = 0;
  for (let i = 0; i < width; i++) squares += ((floats[at + i] as number) - mean) ** 2;
  const scale = 1 / Math.sqrt(squares / width + epsilon);
  for (let i = 0; i < width; i++) {
    const unit = ((floats[at + i] as number) - mean) * scale;
    floats[at + i] = unit * (floats[gain + i] as number) + (floats[shift + i] as number);
  }
}

interface QuantizeRows {
  readonly a: number;
  readonly lda: number;
  readonly m: number;
  readonly k: number;
  readonly to: number;
  readonly scales: number;
  readonly top: number;
}

function quantize({ floats, shorts }: Views, { a, lda, m, k, to, scales, top }: QuantizeRows): void {
  for (let row = 0; row < m; row++) {
    const at = a + row * lda;
    let most = 0;
    for (let i = 0; i < k; i++) most = Math.max(most, Math.abs(floats[at + i] as number));
    floats[scales + row] = most / top;
    const factor = most > 0 ? Math.fround(top / most) : 0;
    for (let i = 0; i < k; i++) shorts[to + row * k + i] = Math.round((floats[at + i] as number) * factor);
  }
}

/** Attention of one sentence; places and strides count floats. */
interface Attention {
  readonly qkv: number;
  readonly ldq: number;
  readonly tokens: number;
  readonly heads: number;
  /** Width of one head. */
  readonly width: number;
  readonly scale: number;
  readonly to: number;
  readonly ldt: number;
}

/** Directly by the definition, one row of scores at a time. */
function scalarAttend(floats: Float32Array, attention: Attention): void {
  const { qkv, tokens, heads, width, to } = attention;
  const shares = new Float64Array(tokens);
  const all = heads * width;
  for (let head = 0; head < heads; head++) {
    for (let row = 0; row < tokens; row++) {
      const query = qkv + row * attention.ldq + head * width;
      weigh(floats, { ...attention, query, keys: qkv + all + head * width, shares });
      const out = to + row * attention.ldt + head * width;
      mix(floats, { ...attention, values: qkv + 2 * all + head * width, shares, out });
    }
  }
}

/** The softmax of one query with every key. */
function weigh(
  floats: Float32Array,
  {
    query,
    keys,
    shares,
    ldq,
    width,
    scale,
  }: Attention & { readonly query: number; readonly keys: number; readonly shares: Float64Array },
): void {
  let greatest = Number.NEGATIVE_INFINITY;
  for (let token = 0; token < shares.length; token++) {
    let score = 0;
    const key = keys + token * ldq;
    for (let i = 0; i < width; i++) score += (floats[query + i] as number) * (floats[key + i] as number);
    shares[token] = score * scale;
    greatest = Math.max(greatest, score * scale);
  }
  let sum = 0;
  for (let token = 0; token < shares.length; token++) {
    shares[token] = Math.exp((shares[token] as number) - greatest);
    sum += shares[token] as number;
  }
  for (let token = 0; token < shares.length; token++) shares[token] = (shares[token] as number) / sum;
}

/** The sum of the values weighted by their shares. */
function mix(
  floats: Float32Array,
  {
    values,
    shares,
    out,
    ldq,
    width,
  }: Attention & { readonly values: number; readonly shares: Float64Array; readonly out: number },
): void {
  for (let i = 0; i < width; i++) {
    let sum = 0;
    for (let token = 0; token < shares.length; token++) {
      sum += (shares[token] as number) * (floats[values + token * ldq + i] as number);
    }
    floats[out + i] = sum;
  }
}
