import { exp2, maxLanes, sumLanes } from "./fused.as";
import { DEPTH, gemm } from "./gemm.as";
import { packPanel } from "./pack.as";

/** Rows of scores at a time: with 512 keys they take 96 KB, so they stay in the second-level cache. */
const STRIP: usize = 48;
const LOG2_E: f32 = 1.44269504;

/**
 * Attention of one sentence of `tokens` rows. A row of `qkv` holds the queries of all heads, then the keys, then the
 * values, `width` each. Each head writes its part to `to`. `scratch` takes keys and values as panels, 2 · width ·
 * padded tokens floats, and the scores of a strip.
 */
export function attend(
  qkv: usize,
  ldq: usize,
  tokens: usize,
  heads: usize,
  width: usize,
  scale: f32,
  to: usize,
  ldt: usize,
  scratch: usize,
): void {
  const padded = (tokens + 7) & ~7;
  const all = (heads * width) << 2;
  const keys = scratch;
  const values = keys + ((padded * width) << 2);
  const scores = values + ((padded * width) << 2);
  for (let head: usize = 0; head < heads; head++) {
    const q = qkv + ((head * width) << 2);
    packKeys(q + all, ldq, tokens, width, padded, keys);
    packValues(q + 2 * all, ldq, tokens, width, padded, values);
    for (let row: usize = 0; row < tokens; row += STRIP) {
      const rows = min(STRIP, tokens - row);
      gemm(q + row * ldq, ldq, rows, width, keys, padded, 0, scores, padded << 2, 0);
      for (let i: usize = 0; i < rows; i++) softmax(scores + i * (padded << 2), tokens, padded, scale);
      gemm(scores, padded << 2, rows, padded, values, width, 0, to + row * ldt + ((head * width) << 2), ldt, 0);
    }
  }
}

/** The transposed keys of a head: a panel is eight tokens. */
function packKeys(from: usize, stride: usize, tokens: usize, width: usize, padded: usize, to: usize): void {
  for (let token: usize = 0; token < tokens; token += 8) {
    const rows = min<usize>(8, tokens - token);
    packPanel(from + token * stride, stride, rows, width, width, padded, token >> 3, to);
  }
}

/** The values of a head: a panel is eight of its columns, all tokens. */
function packValues(from: usize, stride: usize, tokens: usize, width: usize, padded: usize, to: usize): void {
  for (let start: usize = 0; start < padded; start += DEPTH) {
    const depth = min(DEPTH, padded - start);
    for (let column: usize = 0; column < width; column += 8) {
      let at = to + ((start * width + column * depth) << 2);
      let row = from + start * stride + (column << 2);
      for (let token = start; token < start + depth; token++, row += stride, at += 32) {
        const inside = token < tokens;
        v128.store(at, inside ? v128.load(row) : f32x4.splat(0));
        v128.store(at, inside ? v128.load(row, 16) : f32x4.splat(0), 16);
      }
    }
  }
}

/** In place. The values after the tokens become as good as zero. */
function softmax(row: usize, tokens: usize, padded: usize, scale: f32): void {
  const end = row + (padded << 2);
  for (let at = row + (tokens << 2); at < end; at += 4) store<f32>(at, -f32.MAX_VALUE);
  let greatest = v128.load(row);
  for (let at = row + 16; at < end; at += 16) greatest = f32x4.pmax(greatest, v128.load(at));
  const top = f32x4.splat(maxLanes(greatest));
  const factor = f32x4.splat(scale * LOG2_E);
  let sum = f32x4.splat(0);
  for (let at = row; at < end; at += 16) {
    const power = exp2(f32x4.mul(f32x4.sub(v128.load(at), top), factor));
    sum = f32x4.add(sum, power);
    v128.store(at, power);
  }
  const share = f32x4.splat(1 / sumLanes(sum));
  for (let at = row; at < end; at += 16) v128.store(at, f32x4.mul(v128.load(at), share));
}
