import { readFileSync, statSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openVault as openAnywhere } from "../../src/api/vault/index.ts";
import { open as openFormat } from "../../src/formats/aerovault/library.ts";
import { inspect } from "../../src/platform/node/index.ts";
import { createVault, openVault } from "../../src/platform/node/vault/library.ts";
import { at, code, env, folder, open, password, path, sha, useVaultFolder, using } from "../support/vault-folder.ts";

useVaultFolder();

const SECOND = "another password";

test("keys are added, listed and removed, and each opens the vault here and elsewhere", async () => {
  const bytes = new TextEncoder().encode("a key file of random bytes\n");
  let recovery: string | undefined;
  await using(await open(), async (vault) => {
    const added = await vault.key.add({ newPassword: SECOND, label: "two" });
    expect(added).toMatchObject({ label: "two", kind: "password", dryRun: false, vault: path });
    expect(added.keys.map(({ label }) => label)).toEqual([null, "two"]);
    expect(await vault.key.list()).toEqual({ keys: added.keys });
    expect((await vault.info()).keys).toEqual(added.keys);
    expect((await vault.key.add({ newKeyFile: at("made.key") })).madeFile).toBe(at("made.key"));
    expect(statSync(at("made.key")).mode & 0o777).toBe(0o600);
    await vault.key.add({ newKeyFile: bytes, label: "bytes" });
    ({ recovery } = await vault.key.add({ recovery: true, label: "paper" }));
    await vault.write("x", "still the same vault");
  });
  for (const given of [
    { password: SECOND },
    { password: recovery },
    { password: undefined, keyFile: at("made.key") },
    { password: undefined, keyFile: bytes },
  ]) {
    await using(await openVault(path, { env, ...given }), async (vault) => {
      expect(vault.has("x")).toBe(true);
      await vault.write("y", "a key changes it too");
    });
  }
  const found = await inspect(`${path}::demo.safetensors`, { keyFile: at("made.key"), env });
  expect(found.format).toBe("safetensors");
  const file = new Uint8Array(readFileSync(path));
  for (const elsewhere of [openAnywhere, openFormat]) {
    await using(await elsewhere(file, { keyFile: bytes }), async (vault) => {
      expect((await vault.key.list()).keys).toHaveLength(5);
      expect(await code(vault.key.add({ recovery: true }))).toBe("usage/vault.read-only");
    });
    expect(await code(elsewhere(file, { keyFile: at("made.key") }))).toBe("usage/option-value");
    expect(await code(elsewhere(file, { password: SECOND }).then((vault) => vault.close()))).toBe("no error");
  }
  await using(await open(), async (vault) => {
    expect((await vault.key.remove("two")).removed.label).toBe("two");
    await vault.key.remove("bytes");
  });
  expect(await code(openVault(path, { password: SECOND, env }))).toBe("usage/password.wrong");
  expect(await code(openVault(path, { keyFile: bytes, env }))).toBe("usage/password.wrong");
});

test("what is no key is refused, and changes nothing", async () => {
  const before = sha(path);
  writeFileSync(at("short.key"), "too short");
  await using(await open(), async (vault) => {
    for (const [options, wanted] of [
      [{}, "usage/vault.key"],
      [{ newPassword: SECOND, recovery: true }, "usage/vault.key"],
      [{ newPassword: "short" }, "usage/vault.password"],
      [{ newKeyFile: new Uint8Array(15) }, "usage/vault.key-file"],
      [{ newKeyFile: at("short.key") }, "usage/vault.key-file"],
      [{ newKeyFile: folder }, "source/is-directory"],
      [{ newKeyFile: 7 }, "usage/option-value"],
      [{ recovery: true, label: "header" }, "usage/vault.key"],
      [{ recovery: true, labels: "x" }, "usage/unknown-option"],
    ] as const)
      expect([options, await code(vault.key.add(options as never))]).toEqual([options, wanted]);
    expect(await code(vault.key.remove("header"))).toBe("usage/vault.key");
    expect(await code(vault.key.remove("none"))).toBe("usage/vault.key-not-found");
    expect(await code(vault.key.remove(7 as never))).toBe("usage/option-value");
    expect(await code(vault.batch((inside) => inside.key.add({ recovery: true })))).toBe("usage/vault.batch");
    const dry = await vault.key.add({ recovery: true, dryRun: true });
    expect(dry.recovery).toBeUndefined();
  });
  expect(sha(path)).toBe(before);
  expect(await code(openVault(path, { keyFile: at("none.key"), env }))).toBe("usage/password.wrong");
});

test("a key file that cannot be read is an error once a vault has a key that it could be", async () => {
  writeFileSync(at("short.key"), "too short");
  writeFileSync(at("wrong.key"), "a key of another vault");
  await using(await open(), (vault) => vault.key.add({ newKeyFile: at("other.key") }));
  expect(await code(openVault(path, { keyFile: at("none.key"), env }))).toBe("source/not-found");
  expect(await code(openVault(path, { keyFile: at("short.key"), env }))).toBe("usage/vault.key-file");
  await using(await openVault(path, { keyFile: at("wrong.key"), password, env }), async (vault) => {
    expect(vault.writable).toBe(true);
  });
});

test("changePassword leaves the other keys, and names those that new keys end", async () => {
  await using(await open(), async (vault) => {
    await vault.key.add({ newPassword: SECOND, label: "two" });
    expect((await vault.changePassword("a third password")).endedKeys).toEqual([]);
    await using(await openVault(path, { password: SECOND, env }), async () => undefined);
    const { endedKeys } = await vault.changePassword("a third password", { rekey: true });
    expect(endedKeys).toMatchObject([{ label: "two", kind: "password" }]);
    expect((await vault.key.list()).keys).toHaveLength(1);
  });
  expect(await code(openVault(path, { password: SECOND, env }))).toBe("usage/password.wrong");
});

test("a vault without encryption has no keys, and gets none", async () => {
  const plain = at("plain.aerovault");
  await using(await createVault(plain, { encryption: false, env }), async (vault) => {
    expect(await vault.key.list()).toEqual({ keys: [] });
    expect(await code(vault.key.add({ recovery: true }))).toBe("unsupported/vault.plain");
  });
  expect(await code(openVault(plain, { keyFile: new Uint8Array(32), env }))).toBe("usage/vault.unencrypted");
});
