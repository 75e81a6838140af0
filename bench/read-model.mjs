// Reads every tensor of a local model once with tare's build, into buffers that are used again, and prints one line of
// JSON: { milliseconds, bytes }. The time counts from opening the file on, without Node's start.
//   node read-model.mjs DIST FILE
const [dist, file] = process.argv.slice(2);
const { openModel } = await import(`${dist}/node/node.js`);
const began = performance.now();
const model = await openModel(file);
let bytes = 0;
for (const tensor of model.tensors) {
  for await (const piece of tensor.stream()) bytes += piece.byteLength;
}
await model.close();
console.log(JSON.stringify({ milliseconds: performance.now() - began, bytes }));
