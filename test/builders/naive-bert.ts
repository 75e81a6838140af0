import type { TinyBert } from "./tiny-bert.ts";

type Row = readonly number[];

/** The forward pass as the papers write it, in float64 and without a thought for speed: what encoders are compared with. */
export function naiveBert(bert: TinyBert, ids: readonly number[], counted: readonly number[] = ids.map(() => 1)): Row {
  const { config } = bert;
  let x = ids.map((id, position) =>
    addRows(
      addRows(
        rowOf(bert, "embeddings.word_embeddings.weight", id),
        rowOf(bert, "embeddings.position_embeddings.weight", position),
      ),
      rowOf(bert, "embeddings.token_type_embeddings.weight", 0),
    ),
  );
  x = x.map((row) => norm(bert, "embeddings.LayerNorm", row));
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `encoder.layer.${layer}.`;
    const mixed = attention(bert, prefix, x);
    x = x.map((row, i) =>
      norm(
        bert,
        `${prefix}attention.output.LayerNorm`,
        addRows(row, linear(bert, `${prefix}attention.output.dense`, mixed[i] as Row)),
      ),
    );
    x = x.map((row) => {
      const inner = linear(bert, `${prefix}intermediate.dense`, row).map(ACTIVATIONS[config.activation]);
      return norm(bert, `${prefix}output.LayerNorm`, addRows(row, linear(bert, `${prefix}output.dense`, inner)));
    });
  }
  const kept = x.filter((_, i) => counted[i] === 1);
  const pooled =
    config.pooling === "cls"
      ? (x[0] as Row)
      : (x[0] as Row).map((_, i) => kept.reduce((sum, row) => sum + (row[i] as number), 0) / kept.length);
  if (config.normalize === "none") return pooled;
  const length = Math.hypot(...pooled);
  return pooled.map((value) => value / length);
}

const ACTIVATIONS = {
  gelu: (x: number) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  gelu_tanh: (x: number) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  relu: (x: number) => Math.max(0, x),
};

/** Its Taylor series, which converges everywhere and is exact enough for the values of small models. */
function erf(x: number): number {
  if (Math.abs(x) > 5) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; n < 120; n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

function attention(bert: TinyBert, prefix: string, x: readonly Row[]): Row[] {
  const { heads, hidden } = bert.config;
  const width = hidden / heads;
  const [queries, keys, values] = ["query", "key", "value"].map((part) =>
    x.map((row) => linear(bert, `${prefix}attention.self.${part}`, row)),
  ) as [Row[], Row[], Row[]];
  return queries.map((query) =>
    Array.from({ length: heads }, (_, head) => {
      const own = (row: Row): Row => row.slice(head * width, (head + 1) * width);
      const scores = keys.map((key) => dot(own(query), own(key)) / Math.sqrt(width));
      const top = Math.max(...scores);
      const shares = scores.map((score) => Math.exp(score - top));
      const total = shares.reduce((sum, share) => sum + share, 0);
      return own(query).map((_, i) =>
        values.reduce((sum, value, t) => sum + ((shares[t] as number) / total) * (own(value)[i] as number), 0),
      );
    }).flat(),
  );
}

function norm(bert: TinyBert, name: string, row: Row): Row {
  const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
  const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
  const [gain, shift] = [vectorOf(bert, `${name}.weight`), vectorOf(bert, `${name}.bias`)];
  const scale = 1 / Math.sqrt(variance + bert.config.epsilon);
  return row.map((value, i) => (value - mean) * scale * (gain[i] as number) + (shift[i] as number));
}

function linear(bert: TinyBert, name: string, row: Row): Row {
  return [...vectorOf(bert, `${name}.bias`)].map((bias, i) => bias + dot(rowOf(bert, `${name}.weight`, i), row));
}

function dot(a: Row, b: Row): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] as number), 0);
}

function addRows(a: Row, b: Row): Row {
  return a.map((value, i) => value + (b[i] as number));
}

function vectorOf(bert: TinyBert, name: string): Float32Array {
  return bert.values.get(name) as Float32Array;
}

function rowOf(bert: TinyBert, name: string, row: number): Row {
  const width = bert.tensor(name).shape[1] as number;
  return [...vectorOf(bert, name).subarray(row * width, (row + 1) * width)];
}
