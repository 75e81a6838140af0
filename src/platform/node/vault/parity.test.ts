import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withFaults } from "../../../../test/support/file-faults.ts";
import type { ChangeOptions } from "../../../api/vault/options.ts";
import { levelSettings } from "../../../formats/aerovault/write/profiles.ts";
import { PARITY_LEVELS, parityGrid } from "../../../model/parity/avec.ts";
import { generateSidecar } from "../../../operations/correct.ts";
import { nativeEngine } from "../engine/native.ts";
import { fileSink } from "../files/sink.ts";
import { openFile } from "../files/source.ts";
import { correct } from "../index.ts";
import { createVaultFile } from "./create.ts";
import { createVault, openVault, type Vault } from "./library.ts";
import { type ExportOptions, exportVaultParity, renewSidecar } from "./parity.ts";

const engine = await nativeEngine();
const grid = parityGrid(PARITY_LEVELS.medium);
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-parity-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

test("a sidecar that cannot be made again leaves no file open", async () => {
  const context = { engine, limits: {}, env: { XDG_STATE_HOME: join(folder, "state") }, onNote: () => undefined };
  const fates = new Set<string>();
  const open: string[] = [];
  let failed: string | undefined = "";
  for (let at = 1; failed !== undefined; at++) {
    const path = join(folder, `${at}.aerovault`);
    await createVaultFile(path, { overwrite: "refuse", settings: levelSettings(1), password: undefined }, context);
    const source = await openFile(path);
    const sink = await fileSink(`${path}.aerocorrect`, { overwrite: "replace" });
    await generateSidecar(source, sink, { engine, grid });
    await sink.commit();
    await source.close();
    const { calls, result } = await withFaults(path, { at, errno: "EIO" }, () =>
      renewSidecar(path, context, undefined).then(
        ({ fate }) => fate,
        () => "failed",
      ),
    );
    ({ failed } = calls);
    fates.add(result);
    open.push(...calls.open.map((one) => `${one} after ${failed}`));
  }
  expect(open).toEqual([]);
  expect([...fates]).toEqual(expect.arrayContaining(["renewed", "removed"]));
});

describe("what follows a change that is in place", () => {
  const reason = new Error("enough");
  const env = (): Record<string, string> => ({ XDG_STATE_HOME: join(folder, "state") });
  let count = 0;
  const rekey = (vault: Vault, options: ChangeOptions): Promise<unknown> =>
    vault.changePassword("another password", { rekey: true, ...options });

  /** A vault with a sidecar of the given kind. Only one with a password costs the time to derive keys. */
  async function vaultWithSidecar(how: { readonly password?: string }, kind: "vault" | "file"): Promise<Vault> {
    const path = join(folder, `changed-${count++}.aerovault`);
    const lane = how.password === undefined ? { encryption: false as const } : how;
    const vault = await createVault(path, { ...lane, profile: "fast", env: env() });
    await vault.write("a", "some text");
    if (kind === "vault") await vault.parity.export();
    else await correct.generate(path);
    return vault;
  }

  type Call = (vault: Vault, options: ChangeOptions) => Promise<unknown>;
  test.each<[string, "vault" | "file", { readonly password?: string }, Call]>([
    ["changePassword", "vault", { password: "some password" }, rekey],
    ["parity.embed", "vault", {}, (vault, options) => vault.parity.embed(options)],
    ["parity.embed", "file", {}, (vault, options) => vault.parity.embed(options)],
    ["parity.strip", "vault", {}, (vault, options) => vault.parity.strip(options)],
  ])("%s that is aborted by then removes the sidecar, of a %s, and says so", async (_verb, kind, how, call) => {
    const vault = await vaultWithSidecar(how, kind);
    const path = vault.label;
    const before = readFileSync(path);
    const control = new AbortController();
    const notes: string[] = [];
    await call(vault, {
      signal: control.signal,
      onProgress: () => {
        if (!readFileSync(path).equals(before)) control.abort(reason);
      },
      onNote: (note) => void notes.push(note),
    });
    expect([control.signal.aborted, existsSync(`${path}.aerocorrect`)]).toEqual([true, false]);
    expect(notes).toContainEqual(expect.stringMatching(/aerocorrect" was removed/));
    await vault.write("b", "goes on");
    await vault.close();
  });

  test("names the sidecar that it has made again or removed, which is not beside a link to the vault", async () => {
    const vault = await vaultWithSidecar({}, "vault");
    const path = vault.label;
    await vault.close();
    mkdirSync(join(folder, "links"));
    symlinkSync(path, join(folder, "links/v"));
    const linked = await openVault(join(folder, "links/v"), { env: env() });
    const notes: string[] = [];
    await linked.parity.embed({ onNote: (note) => void notes.push(note) });
    await linked.close();
    const [named] = /(?<=").*\.aerocorrect(?=")/.exec(notes.join()) ?? [];
    expect([named, existsSync(named ?? "")]).toEqual([`${realpathSync(path)}.aerocorrect`, true]);
  });

  test.each<[string, (vault: Vault, options: ChangeOptions) => Promise<unknown>]>([
    ["write", (vault, options) => vault.write("a", "replaced", options)],
    ["compact", (vault, options) => vault.compact(options)],
    ["parity.embed", (vault, options) => vault.parity.embed(options)],
    ["changePassword", (vault, options) => vault.changePassword("another password", options)],
    ["changePassword with rekey", rekey],
  ])("does not make it look failed if a note cannot be told, and the open vault goes on: %s", async (verb, call) => {
    const vault = await vaultWithSidecar(verb.startsWith("change") ? { password: "some password" } : {}, "vault");
    const before = readFileSync(vault.label);
    linkSync(vault.label, `${vault.label}.other`); // a note tells of it first
    let notes = 0;
    const failed = call(vault, {
      onNote: () => {
        notes++;
        throw reason;
      },
    });
    await expect(failed).rejects.toMatchObject({ code: "source/vault.after-change", cause: reason });
    expect([notes > 0, readFileSync(vault.label).equals(before)]).toEqual([true, false]);
    await vault.write("b", "goes on");
    expect(new TextDecoder().decode(await vault.read("b"))).toBe("goes on");
    await vault.close();
  });
});

/** A vault, and the export of its parity to `output`. */
async function vaultToExport(): Promise<(output: string, options?: Partial<ExportOptions>) => Promise<number>> {
  const context = { engine, limits: {}, env: { XDG_STATE_HOME: join(folder, "state") }, onNote: () => undefined };
  const path = join(mkdtempSync(join(folder, "export-")), "v");
  await createVaultFile(path, { overwrite: "refuse", settings: levelSettings(1), password: undefined }, context);
  return async (output, options) =>
    (await exportVaultParity(path, context, { output, overwrite: "refuse", ...options })).byteLength;
}

test("an export renews the sidecar that another export has put there, and refuses any other file", async () => {
  const run = await vaultToExport();
  const output = join(mkdtempSync(join(folder, "out-")), "s");
  const lengths = await Promise.all([run(output), run(output)]);
  expect(lengths[0]).toBe(lengths[1]);
  expect(await run(output, { run: "dry" })).toBe(lengths[0]);
  writeFileSync(output, "mine");
  for (const dry of [undefined, "dry"] as const) {
    await expect(run(output, { run: dry })).rejects.toMatchObject({ code: "usage/exists" });
  }
  expect(readFileSync(output, "utf8")).toBe("mine");
  expect(await run(output, { overwrite: "replace" })).toBe(lengths[0]);
});

test("an export follows a link to a sidecar, and replaces any other link that it may replace", async () => {
  const run = await vaultToExport();
  const at = mkdtempSync(join(folder, "links-"));
  await run(join(at, "s"));
  symlinkSync("s", join(at, "link"));
  await run(join(at, "link"), { links: "replace" });
  expect(lstatSync(join(at, "link")).isSymbolicLink()).toBe(true);
  writeFileSync(join(at, "s"), "mine");
  await run(join(at, "link"), { links: "replace", overwrite: "replace" });
  expect(lstatSync(join(at, "link")).isSymbolicLink()).toBe(false);
  expect(readFileSync(join(at, "s"), "utf8")).toBe("mine");
});
