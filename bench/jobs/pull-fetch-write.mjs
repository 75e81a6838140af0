import { open } from "node:fs/promises";

/**
 * What a program without a library would do: fetch ranges of 16 MiB, eight at a time, and write them where they belong.
 * Nothing is compared. argv: FOLDER BASE_URL NAME…
 */

const PIECE_BYTES = 16 << 20;
const CONCURRENCY = 8;
const [folder, base, ...names] = process.argv.slice(2);

const queue = [];
const handles = [];
for (const name of names) {
  const head = await fetch(base + name, { method: "HEAD" });
  const size = Number(head.headers.get("content-length"));
  const handle = await open(`${folder}/${name}`, "w");
  handles.push(handle);
  for (let start = 0; start < size; start += PIECE_BYTES) {
    queue.push({ url: base + name, handle, start, end: Math.min(size, start + PIECE_BYTES) });
  }
}

async function work() {
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const { url, handle, start, end } = next;
    const response = await fetch(url, { headers: { range: `bytes=${start}-${end - 1}` } });
    let position = start;
    for await (const piece of response.body) {
      await handle.write(piece, 0, piece.byteLength, position);
      position += piece.byteLength;
    }
    if (response.status !== 206 || position !== end) throw new Error(`Cannot fetch ${url}: ${response.status}`);
  }
}

await Promise.all(Array.from({ length: CONCURRENCY }, work));
await Promise.all(handles.map((handle) => handle.close()));
