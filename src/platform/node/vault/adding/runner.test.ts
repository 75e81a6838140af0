import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { makeXorshift } from "../../../../../test/builders/vault-content.ts";
import { openVault } from "../../../../formats/aerovault/open.ts";
import { closeVault } from "../../../../formats/aerovault/vault.ts";
import { profileSettings } from "../../../../formats/aerovault/write/profiles.ts";
import { addToVault } from "../../../../operations/vault/add.ts";
import { sealSetup } from "../../../../operations/vault/sealing.ts";
import { WorkerPool } from "../../../../workers/pool.ts";
import { pooledEngine } from "../../../../workers/pooled-engine.ts";
import { nativeEngine } from "../../engine/native.ts";
import { extractEntries } from "../../extract/entries.ts";
import { openFile } from "../../files/source.ts";
import { createVaultFile } from "../create.ts";
import { collectInputs, openVaultInput } from "./inputs.ts";
import { extractRunner, sealRunner } from "./runner.ts";

const folder = await mkdtemp(join(tmpdir(), "tare-runner-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A host that allows no threads, as under a limit of processes or of memory. */
const spawn = (): never => {
  throw new Error("Cannot allocate memory");
};
const settings = profileSettings("balanced");
const password = new TextEncoder().encode("correct horse");

/** An engine that expects four threads, of which none starts. */
async function engineWithoutThreads() {
  return pooledEngine(await nativeEngine(), new WorkerPool({ size: 4, spawn }));
}

test("a vault is written and extracted byte for byte if no thread starts", async () => {
  const engine = await engineWithoutThreads();
  const content = new Map([0, 1].map((i) => [`${i}.bin`, makeXorshift(BigInt(i + 7), (9 << 20) + i)]));
  const from = join(folder, "from");
  await mkdir(from);
  for (const [name, bytes] of content) await writeFile(join(from, name), bytes);
  const path = join(folder, "v.aerovault");
  const work = { byteLength: 18 << 20, files: 2 };
  const inputs = collectInputs([`${from}/.`], {
    to: "",
    include: [],
    exclude: [],
    links: "refuse",
    vault: undefined,
    onNote: () => undefined,
    openFile: (file, identity) => openVaultInput(file, identity, { engine, limits: {}, tensors: "cut" }),
  });
  const context = { engine, limits: {}, env: { XDG_STATE_HOME: folder }, onNote: () => undefined };
  await createVaultFile(
    path,
    {
      overwrite: "refuse",
      settings,
      password,
      async fill(edit, keys) {
        const runner = sealRunner({ engine, ...work, isKnown: (id) => edit.has(id) });
        const setup = await sealSetup(engine, settings, { keys, chunker: "keyed", label: path });
        await addToVault(edit, inputs, { engine, runner, setup, onProgress: () => undefined });
      },
    },
    context,
  );
  const vault = await openVault(await openFile(path), {
    engine,
    limits: {},
    password: async () => password.slice(),
  });
  const root = join(folder, "out");
  const options = { root, overwrite: "refuse", engine, ...extractRunner({ engine, ...work }) } as const;
  await extractEntries(vault, vault.manifest.entries.records(), options);
  await closeVault(vault);
  for (const [name, bytes] of content) expect(readFileSync(join(root, name)).equals(bytes)).toBe(true);
});
