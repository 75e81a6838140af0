import { truncate } from "node:fs/promises";
import { NO_EXTRA_KEYS } from "../../src/formats/aerovault/manifest/field-reader.ts";
import { takeTail } from "../../src/formats/aerovault/write/free-space.ts";
import { nodeEngine } from "../../src/platform/node/engine/engine.ts";
import { changeVault } from "../../src/platform/node/vault/change.ts";

const BLOCK_BYTES = 1 << 20;
const BLOCKS = 20_000;
const BLOCKS_A_FILE = 100;

/**
 * Turns an empty vault into one of 21 GB. Its blocks are holes that take no room on disk. Changing and listing it costs
 * as much as with real blocks, because neither reads them.
 */
export async function fillWithHoles(path: string): Promise<void> {
  const engine = await nodeEngine({ workers: 0 });
  // Long enough that the vault is changed in place instead of copied.
  await truncate(path, 32 << 20);
  await changeVault(
    path,
    { engine, limits: {}, env: { XDG_STATE_HOME: `${path}.state` }, onNote: () => undefined },
    {
      layout: "update",
      async apply(edit) {
        const { output } = edit;
        if (output === undefined) throw new Error("the vault must be a file on this machine");
        let ids: string[] = [];
        for (let i = 0; i < BLOCKS; i++) {
          const id = i.toString(16).padStart(32, "0");
          const lengths = { blockLen: BLOCK_BYTES - 8, plaintextLen: BLOCK_BYTES, compressedLen: BLOCK_BYTES };
          const own = { id, blockIndex: i, cipherHash: id + id, storedRaw: false };
          edit.adopt({ ...own, ...lengths }, takeTail(output.tail, BLOCK_BYTES));
          ids.push(id);
          if (ids.length < BLOCKS_A_FILE) continue;
          const size = BLOCKS_A_FILE * BLOCK_BYTES;
          edit.tree.put({ path: `m/${i}`, size, modified: edit.now, isDir: false, chunks: ids, extra: NO_EXTRA_KEYS });
          ids = [];
        }
        return { result: undefined };
      },
    },
  );
  await engine.close();
}
