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
    pool: "threads",
    isolate: false,
    testTimeout: 30_000,
  },
});
