import { defineConfig } from "vitest/config";
import fast from "./vitest.config.ts";

/** `npm run test:slow`: tests that take long by nature, such as a visit of every page with every format. */
export default defineConfig({
  test: { ...fast.test, include: ["src/**/*.slow.test.ts", "test/**/*.slow.test.ts"], exclude: ["**/node_modules/**"] },
});
