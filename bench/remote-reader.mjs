// Reads a model over HTTP with tare's build and prints one line of JSON: { milliseconds, bytes, buffers }. The time counts
// from the first request on. With --expose-gc, buffers is the highest number of bytes in live array buffers at any look,
// what is garbage taken out; otherwise it is 0, because looking costs time.
//   node remote-reader.mjs DIST stream URL
//   node remote-reader.mjs DIST parts URL                   the same, several parts at a time
//   node remote-reader.mjs DIST mirrors URL MIRROR NAME…    parts NAME below both addresses, one after the other
//   node remote-reader.mjs DIST prefetch URL PREFIX         every tensor whose name begins so
const [dist, mode, url, ...rest] = process.argv.slice(2);
const tare = await import(`${dist}/node/node.js`);
const engine = await tare.nodeEngine();
const transport = tare.nodeTransport({ environment: {} });

let buffers = 0;
let looks = 0;
const look = () => {
  if (globalThis.gc === undefined || looks++ % 16 !== 0) return;
  globalThis.gc();
  buffers = Math.max(buffers, process.memoryUsage().arrayBuffers);
};

async function streamModel(model, options) {
  let bytes = 0;
  for await (const piece of tare.streamTensors(model, options)) {
    bytes += piece.bytes.byteLength;
    look();
  }
  await model.close();
  return bytes;
}

const modes = {
  stream: async () => streamModel(await tare.openModel(url, { engine, http: { transport } })),

  parts: async () => streamModel(await tare.openModel(url, { engine, http: { transport } }), { order: "any" }),

  async mirrors([mirror, ...names]) {
    const pace = new tare.Pace();
    let bytes = 0;
    for (const name of names) {
      const [first, second] = await Promise.all([url, mirror].map((base) => tare.openHttp(base + name, { transport })));
      const source = tare.withParallelStreams(tare.withHedging(first, { mirrors: [second], pace }));
      bytes += await streamModel(await tare.openModel(source, { engine }));
    }
    return bytes;
  },

  async prefetch([prefix]) {
    const model = await tare.openModel(url, { engine, http: { transport } });
    const names = model.tensors.map(({ name }) => name).filter((name) => name.startsWith(prefix));
    began = performance.now();
    const loaded = await tare.prefetch(model, names);
    let bytes = 0;
    for (const tensor of loaded.values()) bytes += (await tensor.bytes()).byteLength;
    look();
    await model.close();
    return bytes;
  },
};

let began = performance.now();
const bytes = await modes[mode](rest);
const milliseconds = performance.now() - began;
await transport.close();
await engine.close();
console.log(JSON.stringify({ milliseconds, bytes, buffers }));
