import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sinkContract } from "../../../../test/contracts/sink-contract.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { VaultArchive } from "../../../formats/aerovault/archive.ts";
import { openVault } from "../../../formats/aerovault/open.ts";
import { levelSettings } from "../../../formats/aerovault/write/profiles.ts";
import { nativeEngine } from "../engine/native.ts";
import { openFile } from "../files/source.ts";
import { createVaultFile } from "./create.ts";
import { openVaultSink } from "./output.ts";

const engine = await nativeEngine();

sinkContract("a file of a vault", { reopen: "last" }, async () => {
  const root = await mkdtemp(join(tmpdir(), "tare-vault-sink-"));
  const vault = join(root, "v.aerovault");
  const context = { engine, limits: {}, env: { XDG_STATE_HOME: join(root, "state") }, onNote: () => undefined };
  await createVaultFile(vault, { overwrite: "refuse", settings: levelSettings(1), password: undefined }, context);
  /** The vault as any reader sees it. */
  const read = async <T>(use: (archive: VaultArchive) => T | Promise<T>): Promise<T> => {
    const archive = new VaultArchive(await openVault(await openFile(vault), { engine, limits: {} }));
    try {
      return await use(archive);
    } finally {
      await archive.close();
    }
  };
  const sink = await openVaultSink({ vault, entry: "sub/file" }, context, "refuse");
  return {
    sink,
    published: () =>
      read(async (archive): Promise<Bytes | undefined> => {
        const entry = archive.entries.find(({ path }) => path === "sub/file");
        const source = entry?.source();
        return source === undefined ? undefined : (await source.read(0, source.byteLength)).slice();
      }),
    leftovers: async () => {
      const names = (await readdir(root)).filter((name) => name !== "v.aerovault" && name !== "state");
      const entries = await read(({ entries }) => entries.map(({ path }) => path));
      return [...names, ...entries.filter((path) => path !== "sub" && path !== "sub/file")];
    },
    dispose: () => rm(root, { recursive: true }),
  };
});
