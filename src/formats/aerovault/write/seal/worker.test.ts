import { expect, test } from "vitest";
import { IdClaims } from "./worker.ts";

function id(n: number): string {
  return (BigInt(n) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834n).toString(16).padStart(32, "0").slice(-32);
}

test("claim() gives each id to one caller, through any view of the memory", () => {
  const claims = IdClaims.create(1000) as IdClaims;
  const other = new IdClaims(claims.memory);
  for (let i = 1; i <= 1000; i++) expect((i % 2 === 0 ? claims : other).claim(id(i))).toBe("yours");
  for (let i = 1; i <= 1000; i++) expect((i % 2 === 0 ? other : claims).claim(id(i))).toBe("taken");
});

test("claim() keeps an id whose first half is zero", () => {
  const claims = IdClaims.create(1) as IdClaims;
  const zeros = "0".repeat(32);
  expect([claims.claim(zeros), claims.claim(zeros)]).toEqual(["yours", "taken"]);
});

test("claim() of a full table lets every caller work, so that no chunk is lost", () => {
  const claims = new IdClaims(new BigInt64Array(new SharedArrayBuffer(4 * 8)));
  for (let i = 1; i <= 4; i++) expect(claims.claim(id(i))).toBe("yours");
  expect([claims.claim(id(9)), claims.claim(id(9))]).toEqual(["yours", "yours"]);
});
