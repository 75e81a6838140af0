import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { PullStore } from "../../src/operations/pull/store.ts";
import { openPullStore } from "../../src/platform/node/pull/store.ts";
import { folder, holds, noise, pullInto, serve, setOf, stateOf } from "./pull-into.ts";

const MIB = 1 << 20;
const names = (directory: string): string[] => readdirSync(directory, { recursive: true }).map(String);

/** A store whose process dies after the file has its name and before the journal is gone. */
async function dyingStore(directory: string): Promise<PullStore> {
  const store = await openPullStore(directory, { environment: { XDG_STATE_HOME: stateOf(directory) } });
  const openPartial: PullStore["openPartial"] = async (path, replaced) => {
    const partial = await store.openPartial(path, replaced);
    const publish: typeof partial.publish = async (byteLength) => {
      const journal = readFileSync(join(directory, `${path}.tare-pull`));
      await partial.publish(byteLength);
      writeFileSync(join(directory, `${path}.tare-pull`), journal);
      throw new Error("killed");
    };
    return bound(partial, { publish });
  };
  return bound(store, { openPartial });
}

function bound<T extends object>(inner: T, changed: Partial<T>): T {
  return new Proxy(inner, {
    get(target, key) {
      if (Object.hasOwn(changed, key)) return Reflect.get(changed, key) as unknown;
      const member: unknown = Reflect.get(target, key);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

async function killed(directory: string, url: string): Promise<void> {
  const store = await dyingStore(directory);
  await expect(pullInto(folder(), { url, store })).rejects.toThrow("killed");
  await store.close();
}

it("a file without a digest that a pull put in place before it died is pulled again, and its journal goes", async () => {
  const bytes = noise(2 * MIB, 1);
  const server = await serve({ "m.bin": bytes });
  const to = folder();
  await killed(to, `${server.url}m.bin`);
  expect(names(to)).toContain("m.bin.tare-pull");
  await pullInto(to, { url: `${server.url}m.bin` });
  expect(holds(to, "m.bin", bytes)).toBe(true);
  expect(names(to).filter((name) => /tare-(part|pull)$/.test(name))).toEqual([]);
});

it("a file that its index proves stays, and its journal goes", async () => {
  const parts = { "part-000.aero": noise(2 * MIB, 2) };
  const server = await serve(setOf(parts, noise(400, 5)));
  const to = folder();
  await killed(to, `${server.url}model.aeroset.json`);
  const left = names(to).filter((name) => name.endsWith(".tare-pull"));
  expect(left.length).toBeGreaterThan(0);
  await pullInto(to, { url: `${server.url}model.aeroset.json` });
  expect(names(to).filter((name) => name.endsWith(".tare-pull"))).toEqual([]);
  expect(holds(to, "part-000.aero", parts["part-000.aero"])).toBe(true);
});

it("what is no journal stays, and proves nothing", async () => {
  const server = await serve({ "m.bin": noise(2 * MIB, 1) });
  const to = folder();
  await killed(to, `${server.url}m.bin`);
  // A copy of the file has another inode: it may be anything.
  const copy = readFileSync(join(to, "m.bin"));
  rmSync(join(to, "m.bin"));
  writeFileSync(join(to, "other"), "");
  writeFileSync(join(to, "m.bin"), copy);
  await expect(pullInto(to, { url: `${server.url}m.bin` })).rejects.toMatchObject({ code: "usage/exists" });
  writeFileSync(join(to, "m.bin.tare-pull"), "notes of mine");
  await expect(pullInto(to, { url: `${server.url}m.bin` })).rejects.toMatchObject({ code: "usage/exists" });
  expect(existsSync(join(to, "m.bin.tare-pull"))).toBe(true);
});
