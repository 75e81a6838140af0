import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: [
      "src/**/*.test.ts",
      "cli/**/*.test.ts",
      "test/**/*.test.ts",
      "tools/**/*.test.ts",
      "bench/**/*.test.ts",
      "viewer/**/*.test.ts",
    ],
    // What is slow by nature: `npm run test:slow`.
    exclude: ["**/*.slow.test.ts", "**/node_modules/**"],
    pool: "threads",
    isolate: false,
    // Against a test that hangs, not a bound of how long one may take: other programs may want the processor too.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
