import { describe, expect, it } from "vitest";
import { type Tier, Tiers } from "./tiers.ts";

function candidate(implementation: string, load: () => Promise<number>): Tier<number> {
  return { tier: "native", implementation, load };
}

describe("Choice", () => {
  const isAnswer = (value: number): boolean => value === 42;

  it("takes the first candidate that loads and gives the known answer", async () => {
    const choice = new Tiers(
      "answer",
      [
        candidate("missing", () => Promise.reject(new Error("Cannot find module"))),
        candidate("wrong", async () => 41),
        candidate("right", async () => 42),
        candidate("never reached", () => Promise.reject(new Error("must not load"))),
      ],
      isAnswer,
    );
    expect(choice.implementation).toBe("missing");
    expect(await choice.get()).toBe(42);
    expect(choice.implementation).toBe("right");
  });

  it("loads once, however many ask", async () => {
    let loads = 0;
    const load = async (): Promise<number> => {
      loads++;
      return 42;
    };
    const choice = new Tiers("answer", [candidate("counted", load)], isAnswer);
    await Promise.all([choice.get(), choice.get()]);
    await choice.get();
    expect(loads).toBe(1);
  });

  it("refuses where no candidate is right, with the last failure as the cause", async () => {
    const cause = new Error("Cannot find module");
    const choice = new Tiers("answer", [candidate("missing", () => Promise.reject(cause))], isAnswer);
    await expect(choice.get()).rejects.toMatchObject({ code: "unsupported/engine.primitive", cause });
    expect(choice.implementation).toBe("none");
    expect(choice.tier).toBeUndefined();
  });
});
