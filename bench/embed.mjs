// Embeds token ids with tare and prints the milliseconds of one thing, the least of those it saw.
//   node embed.mjs ours DIST MODEL OPTIONS TASK      OPTIONS as JSON for loadEmbedder
//   node embed.mjs theirs PACKAGE MODEL OPTIONS TASK PACKAGE onnxruntime-node or -web; OPTIONS {"threads":1,"batch":8}
// TASK: "load" (open to first vector), a number of tokens of one sentence, or "batch" (1000 sentences of 8 to 128).
import { readFileSync } from "node:fs";

const [side, from, model, optionText, task] = process.argv.slice(2);
const options = JSON.parse(optionText);
const SECONDS = 3;
const SENTENCES = 1000;

/** The same ids for everybody: [CLS], words of a short list, [SEP]. */
function sentence(length, seed = 0) {
  return Int32Array.from({ length }, (_, i) => {
    if (i === 0) return 101;
    return i === length - 1 ? 102 : 1996 + ((i * 37 + seed * 101) % 4000);
  });
}

async function ours() {
  const { loadEmbedder } = await import(`${from}/node/node.js`);
  return async () => {
    const embedder = await loadEmbedder(model, options);
    return { embed: (batch) => embedder.embedTokens(batch), close: () => embedder.close() };
  };
}

async function theirs() {
  const ort = await import(from);
  const { threads, batch: batchSize = 1 } = options;
  const isWeb = from.includes("onnxruntime-web");
  if (isWeb) ort.env.wasm.numThreads = threads;
  return async () => {
    const session = await ort.InferenceSession.create(isWeb ? readFileSync(model) : model, {
      intraOpNumThreads: threads,
      interOpNumThreads: 1,
      executionProviders: [isWeb ? "wasm" : "cpu"],
    });
    const tensor = (rows, width, value) =>
      new ort.Tensor(
        "int64",
        BigInt64Array.from({ length: rows.length * width }, (_, i) =>
          BigInt(value(rows[Math.floor(i / width)], i % width)),
        ),
        [rows.length, width],
      );
    const run = (rows) => {
      const width = rows.at(-1).length;
      return session.run({
        input_ids: tensor(rows, width, (row, i) => row[i] ?? 0),
        attention_mask: tensor(rows, width, (row, i) => (i < row.length ? 1 : 0)),
        token_type_ids: tensor(rows, width, () => 0),
      });
    };
    const embed = async (batch) => {
      // Sorted, so that a batch is padded as little as can be.
      const sorted = [...batch].sort((a, b) => a.length - b.length);
      for (let i = 0; i < sorted.length; i += batchSize) await run(sorted.slice(i, i + batchSize));
    };
    return { embed, close: () => session.release() };
  };
}

async function timed(work) {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

const load = await (side === "ours" ? ours() : theirs());
if (task === "load") {
  console.log(await timed(async () => (await load()).embed([sentence(16)])));
  process.exit(0);
}
const encoder = await load();
if (task === "batch") {
  const batch = Array.from({ length: SENTENCES }, (_, i) => sentence(8 + ((i * 53) % 121), i));
  await encoder.embed(batch.slice(0, 64));
  console.log(await timed(() => encoder.embed(batch)));
} else {
  const batch = [sentence(Number(task))];
  for (let i = 0; i < 5; i++) await encoder.embed(batch);
  let least = Number.POSITIVE_INFINITY;
  const end = performance.now() + SECONDS * 1000;
  while (performance.now() < end) least = Math.min(least, await timed(() => encoder.embed(batch)));
  console.log(least);
}
await encoder.close();
