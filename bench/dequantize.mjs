// Decodes Q4_0 blocks into one buffer again and again: bytes of float32 a second.
//   node dequantize.mjs DIST BLOCKS SECONDS
const [dist, count, seconds] = process.argv.slice(2);
const { nodeEngine } = await import(`${dist}/node/node.js`);
const engine = await nodeEngine({ workers: 0 });
const quantizer = await engine.quantizer();
const blocks = Uint8Array.from({ length: Number(count) * 18 }, (_, i) => (i % 18 === 1 ? 0x2c : (i * 7) & 255));
const floats = new Float32Array(Number(count) * 32);
quantizer.decode("Q4_0", blocks, floats);
const began = performance.now();
let rounds = 0;
while (performance.now() - began < Number(seconds) * 1000) {
  quantizer.decode("Q4_0", blocks, floats);
  rounds++;
}
console.log((rounds * floats.byteLength * 1000) / (performance.now() - began));
