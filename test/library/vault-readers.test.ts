import { randomBytes } from "node:crypto";
import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Source } from "../../src/bytes/source.ts";
import { memory, verify } from "../../src/platform/node/index.ts";
import { createVault, openVault, type Vault } from "../../src/platform/node/vault/library.ts";
import { at, code, env, useVaultFolder, using } from "../support/vault-folder.ts";

useVaultFolder();

const [keep, tail, other] = [50_000, 400_000, 400_000].map((byteLength) => randomBytes(byteLength));

type How = { readonly encryption: false } | { readonly password: string };

/** A vault, and the same one after two changes: its file `tail` was removed, and another one has the room of its blocks. */
async function twoStates(options: How): Promise<readonly [Buffer, Buffer]> {
  const [path, later] = [at("state.aerovault"), at("later.aerovault")];
  for (const old of [path, later]) rmSync(old, { force: true });
  await using(await createVault(path, { ...options, profile: "fast", env }), async (vault) => {
    await vault.write("keep", keep as Uint8Array);
    await vault.write("tail", tail as Uint8Array);
  });
  copyFileSync(path, later);
  await using(await openVault(later, { ...options, env }), async (vault) => {
    await vault.remove("tail");
    await vault.write("other", other as Uint8Array);
  });
  return [readFileSync(path), readFileSync(later)];
}

let count = 0;

describe.each([
  ["without encryption", { encryption: false } as const],
  ["with encryption", { password: "correct horse battery" }],
])("a vault %s that changes in its place while it is read", (_, options) => {
  let before: Buffer;
  let after: Buffer;
  let path: string;
  beforeAll(async () => {
    [before, after] = await twoStates(options);
  });
  beforeEach(() => {
    path = at(`read-${count++}.aerovault`);
    writeFileSync(path, before);
  });

  test.each<[string, (vault: Vault) => Promise<unknown>]>([
    ["read", (vault) => vault.read("tail")],
    ["scrub", (vault) => vault.scrub()],
    ["verify", (vault) => verify(vault)],
    ["cat", (vault) => vault.cat("tail", memory())],
    ["extract to a folder", (vault) => vault.extract(at(`out-${count}`))],
    ["extract", (vault) => vault.extract(memory())],
  ])("is changed, and not damaged: %s", async (_verb, read) => {
    const vault = await openVault(path, { ...options, env });
    writeFileSync(path, after);
    expect(await code(read(vault))).toBe("source/changed");
    await vault.close();
    await using(await openVault(path, { ...options, env }), async (again) =>
      expect((await again.scrub()).ok).toBe(true),
    );
  });

  test("is damaged if it is damaged, also while another program appends to it", async () => {
    const vault = await openVault(path, { ...options, env });
    const bytes = Buffer.from(before);
    // The header has 1024 bytes, the length of a block 4.
    for (let i = 1100; i < 460_000; i += 40_000) bytes[i] = (bytes[i] as number) ^ 1;
    writeFileSync(path, Buffer.concat([bytes, Buffer.alloc(5000)]));
    expect((await vault.scrub()).ok).toBe(false);
    expect(await code(vault.read("tail"))).toMatch(/^integrity\//);
    await vault.close();
  });

  test("is changed if that happens between two reads of opening it", async () => {
    let reads = 0;
    const read = async (offset: number, byteLength: number): Promise<Uint8Array> =>
      (reads++ === 0 ? before : after).slice(offset, offset + byteLength);
    const source: Source = {
      label: "v",
      byteLength: Math.min(before.byteLength, after.byteLength),
      read: read as Source["read"],
      async *stream(): AsyncGenerator<never> {},
      close: async () => undefined,
    };
    expect(await code(openVault(source, { ...options, env }))).toBe("source/changed");
  });
});

describe("an extraction on several threads", () => {
  test.each([
    [
      "another file is in its place",
      (path: string, changed: Buffer) => {
        rmSync(path);
        writeFileSync(path, changed);
      },
    ],
    ["it was changed in its place", (path: string, changed: Buffer) => writeFileSync(path, changed)],
  ])("keeps the state that was opened if %s", async (_, change) => {
    const [path, later] = [at(`many-${count++}.aerovault`), at("more.aerovault")];
    rmSync(later, { force: true });
    const files = Array.from({ length: 6 }, () => randomBytes(2 << 20));
    await using(await createVault(path, { encryption: false, profile: "fast", env }), (vault) =>
      vault.add(files.map((data, i) => ({ path: `${i}.bin`, data }))),
    );
    copyFileSync(path, later);
    await using(await openVault(later, { env }), (vault) => vault.write("tiny", "x"));
    const folder = at(`many-${count++}`);
    await using(await openVault(path, { env }), async (vault) => {
      change(path, readFileSync(later));
      expect(await vault.extract(folder)).toMatchObject({ files: 6, failed: [] });
    });
    for (const [i, bytes] of files.entries()) expect(readFileSync(join(folder, `${i}.bin`)).equals(bytes)).toBe(true);
  });
});
