import { chmodSync, mkdtempSync, promises, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { encodeUtf8 } from "../../src/base/text.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { xorshiftBytes } from "../vectors/xorshift.ts";
import { callHere } from "./run-tare.ts";

/** A copy of a vault, and what is made of its bytes, is as private as the vault, from its first moment on. */

/** Longer than what is copied for every change: such a vault is written in its place, with a journal. */
const LONG_BYTES = (16 << 20) + 4096;

let folder: string;
let vault: string;
/** Bits beyond those of the owner that a file was made with, by its path. */
const wide: string[] = [];
const { open } = promises;

beforeAll(() => {
  Object.assign(promises, {
    open: async (...args: Parameters<typeof open>) => {
      const [path, flags, mode] = args;
      const isMade = typeof flags === "number" ? (flags & 0o100) !== 0 : /[wa]/.test(flags ?? "r");
      if (isMade && String(path).startsWith(folder) && (Number(mode ?? 0o666) & 0o077) !== 0) wide.push(String(path));
      return open(...args);
    },
  });
  syncBuiltinESMExports();
});
afterAll(() => {
  Object.assign(promises, { open });
  syncBuiltinESMExports();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-privacy-"));
  vault = at("v");
  wide.length = 0;
  writeFileSync(at("pw"), VAULT_PASSWORD);
  writeFileSync(at("a.txt"), "mine\n");
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

function at(name: string): string {
  return join(folder, name);
}

async function ok(...args: readonly string[]): Promise<void> {
  const { code, err } = await callHere(args, { env: { XDG_STATE_HOME: at("state") } });
  expect({ args, code, err }).toMatchObject({ code: 0 });
}

function modeOf(name: string): string {
  return (statSync(at(name)).mode & 0o777).toString(8);
}

it("what is made beside a private vault is private, drafts and journals too", async () => {
  await ok("vault", "create", vault, "--no-encryption", "--profile", "fast", "--parity", "5%");
  await ok("vault", "add", vault, at("a.txt"));
  writeFileSync(at("long"), xorshiftBytes(LONG_BYTES, 3n));
  await ok("vault", "add", vault, at("long"));
  await ok("vault", "mkdir", vault, "in-place");
  await ok("vault", "parity", vault, "export");
  await ok("vault", "parity", vault, "embed");
  await ok("vault", "compact", vault);
  await ok("vault", "repair", vault, "-o", at("copy"));
  await ok("correct", "gen", vault, "--force");
  writeFileSync(at("old"), await craftVault1([{ path: "a.txt", bytes: encodeUtf8("old") }]), { mode: 0o600 });
  await ok("upgrade", at("old"), at("new"), "--password-file", at("pw"));
  expect(wide).toEqual([]);
  expect(["v", "v.aerocorrect", "copy", "new"].map(modeOf)).toEqual(["600", "600", "600", "600"]);
});

it("a copy takes bits of the vault, and none that what it replaces did not have", async () => {
  await ok("vault", "create", vault, "--no-encryption");
  chmodSync(vault, 0o440);
  await ok("vault", "repair", vault, "-o", at("copy"));
  expect(modeOf("copy")).toBe((0o640 & ~process.umask()).toString(8));
  chmodSync(vault, 0o644);
  chmodSync(at("copy"), 0o600);
  await ok("vault", "repair", vault, "-o", at("copy"), "--force");
  expect(modeOf("copy")).toBe("600");
});

it("a sidecar that is written again is no wider than the vault has become", async () => {
  await ok("vault", "create", vault, "--no-encryption");
  await ok("vault", "parity", vault, "export");
  chmodSync(at("v.aerocorrect"), 0o644);
  await ok("vault", "parity", vault, "export");
  expect(modeOf("v.aerocorrect")).toBe("600");
  chmodSync(vault, 0o644);
  await ok("vault", "parity", vault, "export");
  expect(modeOf("v.aerocorrect")).toBe("600");
  expect(readdirSync(folder).filter((name) => name.startsWith("."))).toEqual([]);
});
