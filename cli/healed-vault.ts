import { open } from "node:fs/promises";
import { isTareError } from "../src/base/errors.ts";
import { SIDECAR_SUFFIX } from "../src/formats/aerocorrect/layout.ts";
import { VAULT_MAGIC } from "../src/formats/aerovault/layout.ts";
import type { OpenedTarget } from "../src/platform/node/open-target.ts";
import type { Context } from "./context.ts";
import { encryptionRule, judgeVault } from "./open-input.ts";

/** A local vault that opening refused, opened by what can heal it; undefined where there is nothing to heal or to heal with. */
export async function openHealed(context: Context, target: string, error: unknown): Promise<OpenedTarget | undefined> {
  if (!isTareError(error) || !/^(format|integrity|unsupported)\/|^usage\/password\.wrong$/.test(error.code))
    return undefined;
  const hasSidecar = await exists(`${target}${SIDECAR_SUFFIX}`);
  const isVault = (await firstBytes(target)) === VAULT_MAGIC;
  // Without a sidecar the header cannot be healed: then it must be right, and so must the password.
  if (!hasSidecar && (!isVault || error.code.startsWith("usage/"))) return undefined;
  const [{ openHealedVault }, { aerovault }] = await Promise.all([
    import("../src/platform/node/vault-repair.ts"),
    import("../src/formats/aerovault/index.ts"),
  ]);
  const container = await openHealedVault(target, {
    engine: await context.engine(),
    limits: await context.limits(),
    signal: context.signal,
    encryption: encryptionRule(context),
    password: async (label) => (await import("./password.ts")).readPassword(context, label, "open"),
  });
  if (container === undefined) return undefined;
  try {
    await judgeVault(context, container, { outer: target, inner: [] });
  } catch (error) {
    await container.close();
    throw error;
  }
  return {
    container,
    format: aerovault,
    reader: await aerovault.read(),
    notes: [],
    label: target,
    cost: { reads: 0, bytes: 0, requests: 0 },
    distrust: async () => undefined,
    close: () => container.close(),
  };
}

async function firstBytes(path: string): Promise<string | undefined> {
  const handle = await open(path, "r").catch(() => undefined); // opening has told why
  if (handle === undefined) return undefined;
  try {
    const bytes = new Uint8Array(VAULT_MAGIC.length);
    await handle.read(bytes, 0, bytes.byteLength, 0);
    return String.fromCharCode(...bytes);
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}

async function exists(path: string): Promise<boolean> {
  const handle = await open(path, "r").catch(() => undefined);
  await handle?.close();
  return handle !== undefined;
}
