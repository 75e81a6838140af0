import { describe, expect, it, vi } from "vitest";
import { NameSet } from "./name-set.ts";

describe("NameSet", () => {
  it("finds the one name of 50 000 that comes twice", () => {
    const names = new NameSet();
    const answers = Array.from({ length: 50_000 }, (_, i) => names.add(`model.layers.${i}.weight`));
    expect(new Set(answers)).toEqual(new Set(["added"]));
    expect(names.add("model.layers.31337.weight")).toBe("duplicate");
    expect(names.size).toBe(50_000);
  });

  it("tells apart names that differ in one character, in case or in length", () => {
    const names = new NameSet();
    for (const name of ["", "a", "A", "aa", "a\0", "ä", "a\u0308", "𝄞"]) expect(names.add(name)).toBe("added");
    expect(names.add("a\0")).toBe("duplicate");
    expect(names.add("")).toBe("duplicate");
  });

  it("stays right and fast when every hash collides", () => {
    // A multiplier that maps every state to the same hash acts like names crafted to collide.
    const imul = vi.spyOn(Math, "imul").mockReturnValue(7);
    try {
      const names = new NameSet();
      for (let i = 0; i < 20_000; i++) names.add(`n${i}`);
      expect(names.size).toBe(20_000);
      expect(names.add("n3")).toBe("duplicate");
      expect(names.add("n19999")).toBe("duplicate");
      expect(names.add("new")).toBe("added");
    } finally {
      imul.mockRestore();
    }
  });
});
