// Loaded with --require into a measured Node process; at its end writes the peak resident size, in bytes, to the file
// that TARE_BENCH_RSS names. VmHWM and not getrusage: on Linux ru_maxrss survives exec, so a child of a large process
// would report its parent's size.
const { readFileSync, writeFileSync } = require("node:fs");
const { isMainThread } = require("node:worker_threads");

function peakResidentBytes() {
  try {
    const line = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "latin1"));
    if (line !== null) return Number(line[1]) * 1024;
  } catch {
    // No /proc: not Linux.
  }
  return process.resourceUsage().maxRSS * 1024;
}

const target = process.env["TARE_BENCH_RSS"];
if (isMainThread && target !== undefined) {
  process.on("exit", () => writeFileSync(target, String(peakResidentBytes())));
}
