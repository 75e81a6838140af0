import { expect, test } from "vitest";
import { allErrors } from "./index.ts";

// That every code is thrown somewhere, and every code that is thrown is here, is what tools/check-docs.ts proves.
test.each([...allErrors()])("%s is explained in whole sentences", (_code, { what, why, fix }) => {
  for (const text of [what, why]) expect(text).toMatch(/^\S.*[.:]$/s);
  expect(fix).toMatch(/^[A-Z`].{4,}(?:\.|: \S.*)$/s); // or what to type, after a colon
});
