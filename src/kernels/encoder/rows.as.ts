import { exp2, fused, sumLanes } from "./fused.as";

/** Adds consecutive rows of a table to rows of `width` values. */
export function addRows(x: usize, ldx: usize, rows: usize, width: usize, table: usize): void {
  for (; rows > 0; rows--, x += ldx) {
    for (let i: usize = 0; i < width << 2; i += 16, table += 16) {
      v128.store(x + i, f32x4.add(v128.load(x + i), v128.load(table)));
    }
  }
}

/** LayerNorm in place over the first `width` values of `padded`. The values after them are zero, before and after. */
export function normalizeRows(
  x: usize,
  ldx: usize,
  rows: usize,
  width: usize,
  padded: usize,
  gain: usize,
  shift: usize,
  epsilon: f32,
): void {
  const count = <f32>width, behind = <f32>(padded - width);
  for (; rows > 0; rows--, x += ldx) {
    const end = x + (padded << 2);
    let sum0 = f32x4.splat(0), sum1 = sum0;
    for (let at = x; at < end; at += 32) {
      sum0 = f32x4.add(sum0, v128.load(at));
      sum1 = f32x4.add(sum1, v128.load(at, 16));
    }
    const mean = sumLanes(f32x4.add(sum0, sum1)) / count;
    const middle = f32x4.splat(mean);
    sum0 = f32x4.splat(0), sum1 = sum0;
    for (let at = x; at < end; at += 32) {
      const d0 = f32x4.sub(v128.load(at), middle), d1 = f32x4.sub(v128.load(at, 16), middle);
      sum0 = fused(d0, d0, sum0);
      sum1 = fused(d1, d1, sum1);
    }
    // Each zero after the row has added mean².
    const variance = max<f32>(0, sumLanes(f32x4.add(sum0, sum1)) - behind * mean * mean) / count;
    const scale = f32x4.splat(1 / sqrt<f32>(variance + epsilon));
    for (let at = x, i: usize = 0; at < end; at += 16, i += 16) {
      const unit = f32x4.mul(f32x4.sub(v128.load(at), middle), scale);
      v128.store(at, fused(unit, v128.load(gain + i), v128.load(shift + i)));
    }
  }
}

/** In place: 0 is GELU with the error function, 1 its tanh form, 2 ReLU. All leave zero as it is. */
export function activate(x: usize, ldx: usize, rows: usize, width: usize, kind: i32): void {
  for (; rows > 0; rows--, x += ldx) {
    const end = x + (width << 2);
    if (kind == 0) for (let at = x; at < end; at += 16) v128.store(at, gelu(v128.load(at)));
    else if (kind == 1) for (let at = x; at < end; at += 16) v128.store(at, geluTanh(v128.load(at)));
    else for (let at = x; at < end; at += 16) v128.store(at, f32x4.max(v128.load(at), f32x4.splat(0)));
  }
}

/**
 * x/2 · (1 + erf(x/√2)). The error function is z·P(z²)/Q(z²), with polynomials fitted on 0 … 3.9 to 1.5e-8. Beyond 3.9
 * it differs from ±1 by less than 3.5e-8.
 */
// @ts-ignore: decorator
@inline
function gelu(x: v128): v128 {
  const scaled = f32x4.mul(x, f32x4.splat(0.70710678));
  const z = f32x4.pmin(f32x4.pmax(scaled, f32x4.splat(-3.9)), f32x4.splat(3.9));
  const u = f32x4.mul(z, z);
  let p = fused(f32x4.splat(2.0503453e-6), u, f32x4.splat(0.00028743659));
  p = fused(p, u, f32x4.splat(0.0038363817));
  p = fused(p, u, f32x4.splat(0.052965388));
  p = fused(p, u, f32x4.splat(0.1919308));
  p = fused(p, u, f32x4.splat(1.128379));
  let q = fused(f32x4.splat(3.8229216e-5), u, f32x4.splat(0.0011815962));
  q = fused(q, u, f32x4.splat(0.015108231));
  q = fused(q, u, f32x4.splat(0.11475381));
  q = fused(q, u, f32x4.splat(0.503426));
  q = fused(q, u, f32x4.splat(1.0));
  const erf = f32x4.div(f32x4.mul(z, p), q);
  const half = f32x4.mul(x, f32x4.splat(0.5));
  return fused(half, erf, half);
}

/** x/2 · (1 + tanh(y)) with y = √(2/π)·(x + 0.044715·x³), which is x / (1 + e^(-2y)). */
// @ts-ignore: decorator
@inline
function geluTanh(x: v128): v128 {
  const inner = fused(f32x4.mul(f32x4.splat(0.044715), f32x4.mul(x, x)), x, x);
  // -2·√(2/π)·log2(e), because the base is 2. The bound prevents an overflow.
  const power = f32x4.pmin(f32x4.mul(inner, f32x4.splat(-2.302208198)), f32x4.splat(126));
  return f32x4.div(x, f32x4.add(f32x4.splat(1), exp2(power)));
}
