import { mkdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { encodeHex } from "../../base/hex.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { deriveFromMaster } from "../../formats/aerovault/keys.ts";
import { MAC_BYTES, MAC_OFFSET } from "../../formats/aerovault/layout.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import type { Engine } from "../../primitives/engine.ts";
import { fileSink } from "./file-sink.ts";

/** Label of the id by which a vault is remembered: it tells nothing about the keys. */
const ID_INFO = "tare vault id v1";
const ID_BYTES = 16;
/** Characters of a header's MAC that are kept: enough to tell headers apart. */
const MAC_DIGITS = 32;
/** Headers that are remembered; older ones are forgotten, and their generations still tell. */
const MAX_SEEN = 4096;
/** A longer file is not ours. */
const MAX_FILE_BYTES = 1 << 20;

/** The part of a vault that memory needs. */
export type RememberedVault = Pick<Vault, "keys" | "manifest"> & { readonly header: Pick<Vault["header"], "bytes"> };

interface Memory {
  /** Highest seen; absent in vaults that the reference wrote last. */
  readonly generation?: number | undefined;
  readonly modified: string;
  /** Of headers, oldest first; the last one is the present. */
  readonly seen: readonly string[];
}

export type StateEnvironment = Readonly<Record<string, string | undefined>>;

/** Where memories are kept. */
export function vaultMemoryFolder(env: StateEnvironment): string {
  const state = env["XDG_STATE_HOME"];
  return join(state?.startsWith("/") === true ? state : join(homedir(), ".local", "state"), "tare", "vaults");
}

/**
 * Compares a vault with what was last seen of it, and remembers it. The text of a warning where it is older: its header was
 * seen before and replaced since, or its generation is lower. Undefined otherwise, also where nothing can be remembered. A
 * vault without encryption has no secret to be remembered by.
 */
export async function recallVault(
  vault: RememberedVault,
  engine: Engine,
  env: StateEnvironment,
): Promise<string | undefined> {
  if (vault.keys.lane === "plain") return undefined;
  const path = await memoryPath(vault, engine, env);
  const before = await readMemory(path);
  const mac = macOf(vault);
  const { generation, modified } = vault.manifest;
  const problem = before === undefined ? undefined : findRollback(before, { mac, generation, modified });
  if (problem === undefined && before?.seen.at(-1) !== mac) await writeMemory(path, advance(before, vault));
  return problem;
}

/** Remembers a vault that was just written, whatever was seen before. */
export async function rememberVault(vault: RememberedVault, engine: Engine, env: StateEnvironment): Promise<void> {
  if (vault.keys.lane === "plain") return;
  const path = await memoryPath(vault, engine, env);
  await writeMemory(path, advance(await readMemory(path), vault));
}

async function memoryPath(vault: RememberedVault, engine: Engine, env: StateEnvironment): Promise<string> {
  const id = await deriveFromMaster(engine, vault.keys, ID_INFO, ID_BYTES);
  return join(vaultMemoryFolder(env), `${encodeHex(id)}.json`);
}

function macOf({ header }: RememberedVault): string {
  return encodeHex(header.bytes.slice(MAC_OFFSET, MAC_OFFSET + MAC_BYTES)).slice(0, MAC_DIGITS);
}

interface Present {
  readonly mac: string;
  readonly generation: number | undefined;
  readonly modified: string;
}

function findRollback(before: Memory, { mac, generation, modified }: Present): string | undefined {
  if (before.seen.at(-1) === mac) return undefined;
  if (before.seen.includes(mac)) return `it is the vault as it was before ${before.modified}`;
  if (generation !== undefined && before.generation !== undefined) {
    if (generation >= before.generation) return undefined;
    return `it is generation ${generation}, and ${before.generation} was seen`;
  }
  // Without a count of both, only times are left; they are of whole seconds and sort as text.
  return modified < before.modified ? `it is of ${modified}, and one of ${before.modified} was seen` : undefined;
}

function advance(before: Memory | undefined, vault: RememberedVault): Memory {
  const { generation, modified } = vault.manifest;
  const mac = macOf(vault);
  const seen = [...(before?.seen ?? []).filter((one) => one !== mac), mac].slice(-MAX_SEEN);
  return { generation: generation ?? before?.generation, modified, seen };
}

/** Undefined where there is none, or one that cannot be read: memory is a help, never a hindrance. */
async function readMemory(path: string): Promise<Memory | undefined> {
  try {
    const bytes = await readFile(path);
    if (bytes.byteLength > MAX_FILE_BYTES) return undefined;
    const value = JSON.parse(bytes.toString("utf8")) as Partial<Memory>;
    const { generation, modified, seen } = value;
    if (typeof modified !== "string" || !Array.isArray(seen)) return undefined;
    return {
      generation: typeof generation === "number" ? generation : undefined,
      modified,
      seen: seen.filter((one) => typeof one === "string"),
    };
  } catch {
    return undefined;
  }
}

async function writeMemory(path: string, memory: Memory): Promise<void> {
  try {
    await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
    const sink = await fileSink(path, { overwrite: "replace" });
    await sink.append(encodeUtf8(`${JSON.stringify(memory)}\n`));
    await sink.commit();
  } catch {
    // A home without room or rights: the next run knows as little as this one.
  }
}
