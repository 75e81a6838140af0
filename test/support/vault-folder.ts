import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { createVault, openVault, type Vault } from "../../src/platform/node/vault/library.ts";
import { callTare } from "../cli/run-tare.ts";

/** A folder with files and a vault of them; each test gets a copy of the vault at `path`. */

export const password = "correct horse battery";
export let folder: string;
export let env: Record<string, string>;
export let path: string;
let count = 0;
export const at = (name: string): string => join(folder, name);
export const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
export const sha = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex");
export const code = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "no error",
    (error: { code?: string; name?: string }) => String(error?.code ?? error?.name ?? error),
  );
/** What a writer may leave beside a vault. */
export const left = (): string[] =>
  readdirSync(folder).filter((name) => name.startsWith(".") || name.includes(".aerocorrect"));
export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Called by each file of tests: files share a process, and a module registers nothing a second time. */
export function useVaultFolder(): void {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "tare-library-vault-"));
    env = { XDG_STATE_HOME: at("state"), TARE_PASSWORD: password };
    mkdirSync(at("reports/old"), { recursive: true });
    writeFileSync(at("reports/a.txt"), "a\n".repeat(5000));
    writeFileSync(at("reports/b.tmp"), "temporary");
    writeFileSync(at("reports/old/c.txt"), "c");
    writeFileSync(at("notes.txt"), "some notes");
    writeFileSync(
      at("big.bin"),
      new Uint8Array(6 << 20).map((_, i) => (i * 2654435761) >>> 24),
    );
    expect((await callTare(["demo", "demo"], { cwd: folder })).code).toBe(0);
    const base = await createVault(at("base.aerovault"), { password, profile: "fast", env });
    await base.add([at("reports"), at("demo/demo.safetensors")]);
    await base.close();
  }, 60_000);
  beforeEach(() => {
    path = at(`v${count++}.aerovault`);
    copyFileSync(at("base.aerovault"), path);
  });
  afterAll(() => rmSync(folder, { recursive: true }));
}

export const open = (more: object = {}): Promise<Vault> => openVault(path, { password, env, ...more });

export async function using<T>(vault: Vault, use: (vault: Vault) => Promise<T>): Promise<T> {
  try {
    return await use(vault);
  } finally {
    await vault.close();
  }
}
