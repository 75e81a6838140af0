import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { levelSettings } from "../../src/formats/aerovault/write/profiles.ts";
import { viewOn } from "../../src/platform/node/serve/view.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { TestVault } from "../../test/builders/vault.ts";
import type { Context } from "../context.ts";
import { nodeCommandHost } from "../node-host.ts";

const engine = portableEngine();

/** As much of a context as finding a vault needs; `engines` is called for every engine. */
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
    onExit: () => undefined,
  };
  return { context: context as unknown as Context, path };
}

test("checking a vault before it is opened hides neither bugs nor an interruption", async () => {
  const sound = await vaultFor(() => engine);
  const view = async ({ context, path }: typeof sound) => viewOn(await nodeCommandHost(context), path);
  await (await view(sound)).close();
  for (const failure of [new TypeError("a bug"), new DOMException("Interrupted", "AbortError")]) {
    let asked = 0;
    const vault = await vaultFor(() => {
      // The first two are for the call itself and for opening.
      if (++asked > 2) throw failure;
      return engine;
    });
    await expect(view(vault)).rejects.toBe(failure);
  }
});
