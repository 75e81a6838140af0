import { closeSync, openSync, readSync } from "node:fs";
import { openModel } from "../dist/node/node.js";

/**
 * Run by jobs/open-safetensors.ts in a process of its own with --expose-gc: FILE ROUNDS. Prints the milliseconds of
 * every round of JSON.parse on the header's text and of opening the file, the first round cold.
 */

const [file, rounds] = process.argv.slice(2);

/** The u64 length and that many bytes after it: no tensor is read. */
function readHeader() {
  const handle = openSync(file);
  try {
    const prefix = Buffer.alloc(8);
    readSync(handle, prefix, 0, 8, 0);
    const header = Buffer.alloc(Number(prefix.readBigUInt64LE(0)));
    readSync(handle, header, 0, header.length, 8);
    return header;
  } finally {
    closeSync(handle);
  }
}

const sides = {
  /** The text is already a string: the baseline pays for parsing alone. */
  parse() {
    return Object.keys(JSON.parse(text)).length - 1;
  },
  /** With reading and decoding the header, as any program that starts from a file has to. */
  read() {
    return Object.keys(JSON.parse(readHeader().toString("utf8"))).length - 1;
  },
  /** Open, parse, and check every name, type, shape and offset. */
  async open() {
    const model = await openModel(file);
    const { length } = model.tensors;
    await model.close?.();
    return length;
  },
};
const text = readHeader().toString("utf8");
const times = { parse: [], read: [], open: [] };

for (let round = 0; round < Number(rounds); round++) {
  const names = Object.keys(sides);
  // Turn the order every round, so that nobody always runs on the heap that another left.
  const order = [...names.slice(round % names.length), ...names.slice(0, round % names.length)];
  for (const name of order) {
    globalThis.gc();
    const began = performance.now();
    const count = await sides[name]();
    times[name].push(performance.now() - began);
    if (count !== 100_000) throw new Error(`Cannot measure: ${name} must find 100000 tensors, found ${count}`);
  }
}
console.log(JSON.stringify(times));
