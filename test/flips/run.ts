import { parseArgs } from "node:util";
import { nativeEngine } from "../../src/platform/node/engine/native.ts";
import { makeFlipCase, regionOf, tryFlip } from "./flips.ts";

const USAGE = `npm run flips -- [--from N] [--to N] [--stride N]

Flips every byte of a vault with parity in turn, in one process, and checks every answer: no wrong plaintext, damage found,
blocks, manifest, list of extensions and parity healed, the header healed with a sidecar and refused without.
`;

const { values } = parseArgs({
  options: {
    from: { type: "string", default: "0" },
    to: { type: "string" },
    stride: { type: "string", default: "1" },
    help: { type: "boolean", short: "h" },
  },
});
if (values.help === true) {
  process.stdout.write(USAGE);
  process.exit(0);
}
const flipCase = await makeFlipCase(await nativeEngine());
const { byteLength } = flipCase.bytes;
const [from, to, stride] = [Number(values.from), Number(values.to ?? byteLength), Number(values.stride)];
const counts: Record<string, number> = {};
const problems: string[] = [];
const started = performance.now();
for (let offset = from; offset < Math.min(to, byteLength); offset += stride) {
  const region = regionOf(flipCase.bytes, offset);
  counts[region] = (counts[region] ?? 0) + 1;
  const problem = await tryFlip(flipCase, offset);
  if (problem === undefined) continue;
  problems.push(problem);
  console.error(problem);
}
const seconds = ((performance.now() - started) / 1000).toFixed(0);
console.log(`${byteLength} bytes, flipped ${JSON.stringify(counts)} in ${seconds} s: ${problems.length} wrong answers`);
process.exit(problems.length === 0 ? 0 : 1);
