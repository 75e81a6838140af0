import { readFileSync } from "node:fs";

/**
 * Milliseconds of processor time that this thread has used. What other programs, or other tests in threads of their own, take
 * from the machine does not count, unlike with a clock.
 */
function processorMs(): number {
  try {
    // proc_pid_schedstat(5): the first number is the time on a processor in nanoseconds.
    return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ", 1)[0]) / 1e6;
  } catch {
    const { user, system } = process.cpuUsage(); // of all threads: more than this one's where there are others
    return (user + system) / 1000;
  }
}

/** Runs it, and gives what it cost this thread beside what it gave. */
export async function measureProcessorTime<T>(
  run: () => T | Promise<T>,
): Promise<{ readonly result: T; readonly milliseconds: number }> {
  const start = processorMs();
  const result = await run();
  return { result, milliseconds: processorMs() - start };
}
