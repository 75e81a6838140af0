import { describe, expect, it } from "vitest";
import { type Tier, Tiers } from "./tiers.ts";

function tier(implementation: string, load: () => Promise<number>): Tier<number> {
  return { tier: "native", implementation, load };
}

describe("Tiers", () => {
  const answer = (...tiers: Tier<number>[]): Tiers<number> =>
    new Tiers({ primitive: "answer", tiers, proves: (value) => value === 42 });

  it("takes the first tier that loads and gives the known answer", async () => {
    const tiers = answer(
      tier("missing", () => Promise.reject(new Error("Cannot find module"))),
      tier("wrong", async () => 41),
      tier("right", async () => 42),
      tier("never reached", () => Promise.reject(new Error("must not load"))),
    );
    expect(tiers.implementation).toBe("missing");
    expect(await tiers.get()).toBe(42);
    expect(tiers.implementation).toBe("right");
  });

  it("loads once for any number of callers", async () => {
    let loads = 0;
    const load = async (): Promise<number> => {
      loads++;
      return 42;
    };
    const tiers = answer(tier("counted", load));
    await Promise.all([tiers.get(), tiers.get()]);
    await tiers.get();
    expect(loads).toBe(1);
  });

  it("refuses if no tier is right, with the last failure as the cause", async () => {
    const cause = new Error("Cannot find module");
    const tiers = answer(tier("missing", () => Promise.reject(cause)));
    await expect(tiers.get()).rejects.toMatchObject({ code: "unsupported/engine.primitive", cause });
    expect(tiers.implementation).toBe("none");
    expect(tiers.tier).toBeUndefined();
  });
});
