/** Attention of one sentence; places and strides count floats. */
export interface Attention {
  readonly qkv: number;
  readonly ldq: number;
  readonly tokens: number;
  readonly heads: number;
  /** Of one head. */
  readonly width: number;
  readonly scale: number;
  readonly to: number;
  readonly ldt: number;
}

/** Straight from the definition, one row of scores at a time. */
export function scalarAttend(floats: Float32Array, attention: Attention): void {
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

/** The values by their shares. */
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
