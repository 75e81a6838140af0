import { expect, test } from "vitest";
import { measureProcessorTime } from "../../../test/support/processor-time.ts";
import { isTaken, matchesAny, matchGlob } from "./glob.ts";

test.each([
  ["*", "anything.at.all", true],
  ["model.layers.*.q_proj.weight", "model.layers.11.self_attn.q_proj.weight", true],
  ["model.layers.?.w", "model.layers.1.w", true],
  ["model.layers.?.w", "model.layers.11.w", false],
  ["blk.[0-3].*", "blk.2.attn", true],
  ["blk.[!0-3].*", "blk.2.attn", false],
  ["*.{q,k}_proj.*", "a.k_proj.b", true],
  ["*.{q,k}_proj.*", "a.v_proj.b", false],
  ["", "", true],
  ["", "x", false],
  ["a**b", "ab", true],
  ["[abc", "[abc", true],
  ["层.*", "层.权重", true],
])("matchGlob(%j, %j) is %s", (pattern, name, expected) => {
  expect(matchGlob(pattern, name)).toBe(expected);
});

test("matchGlob() is fast on patterns that make naive matchers explode", async () => {
  const match = (): boolean => matchGlob(`${"*a".repeat(40)}b`, "a".repeat(5000));
  const { result, milliseconds } = await measureProcessorTime(match);
  expect(result).toBe(false);
  expect(milliseconds).toBeLessThan(1000);
});

test("matchesAny() takes a name as it is, whatever it means as a pattern", () => {
  expect(matchesAny([], "x")).toBe(false);
  expect(matchesAny(["w[0]"], "w[0]")).toBe(true);
  expect(matchesAny(["y", "x"], "x")).toBe(true);
  expect(matchesAny(["y"], "x")).toBe(false);
});

test("isTaken() takes everything if there are no patterns to take", () => {
  expect(isTaken("x", {})).toBe(true);
  expect(isTaken("x", { include: [], exclude: ["y"] })).toBe(true);
  expect(isTaken("x", { include: ["*"], exclude: ["x"] })).toBe(false);
  expect(isTaken("x", { include: [""] })).toBe(false);
});
