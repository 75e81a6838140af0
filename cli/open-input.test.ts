import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { levelSettings } from "../src/formats/aerovault/write/profiles.ts";
import { portableEngine } from "../src/primitives/portable.ts";
import { TestVault } from "../test/builders/vault.ts";
import type { Context } from "./context.ts";
import { placeForCommand } from "./open-input.ts";

const engine = portableEngine();

/** As much of a command as finding a vault needs; `engines` answers each time that it is asked for one. */
async function vaultFor(engines: () => typeof engine): Promise<{ readonly context: Context; readonly path: string }> {
  const folder = mkdtempSync(join(tmpdir(), "tare-open-input-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const vault = new TestVault({ engine });
  await vault.create(levelSettings(3));
  const path = join(folder, "v.aerovault");
  writeFileSync(path, vault.bytes);
  const context = {
    flags: {},
    env: { XDG_STATE_HOME: folder },
    signal: new AbortController().signal,
    engine: async () => engines(),
    limits: async () => ({}),
  };
  return { context: context as unknown as Context, path };
}

test("a vault that is judged before it is opened hides neither bugs nor an interruption", async () => {
  const sound = await vaultFor(() => engine);
  await (await placeForCommand(sound.context, sound.path)).source.close();
  for (const failure of [new TypeError("a bug"), new DOMException("Interrupted", "AbortError")]) {
    let asked = 0;
    const { context, path } = await vaultFor(() => {
      if (++asked > 1) throw failure;
      return engine;
    });
    await expect(placeForCommand(context, path)).rejects.toBe(failure);
  }
});
