import { expect, test } from "vitest";
import { allErrors } from "./index.ts";

// tools/check-docs.ts proves that every code is thrown somewhere, and that every thrown code is here.
test.each([...allErrors()])("%s is explained in whole sentences", (_code, { what, why, fix }) => {
  for (const text of [what, why]) expect(text).toMatch(/^\S.*[.:]$/s);
  expect(fix).toMatch(/^[A-Z`].{4,}(?:\.|: \S.*)$/s); // or what to type, after a colon
});
