// What a program does that fetches ranges by itself, and checks nothing: prints { milliseconds, bytes } as JSON.
//   node plain-fetch.mjs CONCURRENCY FILE     FILE holds [[url, offset, byteLength], …]
import { readFileSync } from "node:fs";

const [concurrency, file] = process.argv.slice(2);
const ranges = JSON.parse(readFileSync(file, "utf8"));
await fetch(ranges[0][0], { method: "HEAD" });

let next = 0;
let bytes = 0;
const began = performance.now();
await Promise.all(
  Array.from({ length: Number(concurrency) }, async () => {
    while (next < ranges.length) {
      const [url, offset, byteLength] = ranges[next++];
      const response = await fetch(url, { headers: { range: `bytes=${offset}-${offset + byteLength - 1}` } });
      if (response.status !== 206) throw new Error(`status ${response.status}`);
      for await (const piece of response.body) bytes += piece.byteLength;
    }
  }),
);
console.log(JSON.stringify({ milliseconds: performance.now() - began, bytes }));
