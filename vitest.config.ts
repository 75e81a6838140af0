import { defineConfig } from "vitest/config";

export default defineConfig({
  // As in tsconfig.viewer.json.
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  test: {
    include: [
      "src/**/*.test.ts",
      "cli/**/*.test.ts",
      "test/**/*.test.ts",
      "tools/**/*.test.ts",
      "bench/**/*.test.ts",
      "viewer/**/*.test.ts",
    ],
    setupFiles: ["test/support/byte-equality.ts"],
    // What is slow by nature: `npm run test:slow`.
    exclude: ["**/*.slow.test.ts", "**/node_modules/**"],
    // Processes, not threads: calls of the command line have a folder and an environment, which belong to a process, and
    // what one test counts (descriptors, memory) is not another one's. Files share a process: nothing is loaded twice.
    pool: "forks",
    isolate: false,
    // Vitest leaves a core to itself, which is half of two.
    maxWorkers: "100%",
    // Against a test that hangs, not a bound of how long one may take: other programs may want the processor too. So no
    // test has a shorter one.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
