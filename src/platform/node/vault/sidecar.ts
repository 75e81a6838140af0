import { lstat, realpath } from "node:fs/promises";
import { equalBytes } from "../../../base/bytes.ts";
import { isTareError, UnsupportedError } from "../../../base/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import { HEADER_SEGMENT, MANIFEST_SEGMENT, SIDECAR_SUFFIX } from "../../../formats/aerocorrect/layout.ts";
import { readSidecar } from "../../../formats/aerocorrect/read.ts";
import type { Sidecar } from "../../../formats/aerocorrect/sidecar.ts";
import { VaultArchive } from "../../../formats/aerovault/archive.ts";
import { HEADER_BYTES } from "../../../formats/aerovault/layout.ts";
import { compareWithParity } from "../../../formats/aerovault/manifest/parity.ts";
import type { Vault } from "../../../formats/aerovault/vault.ts";
import type { Archive } from "../../../model/archive.ts";
import type { Finding } from "../../../model/finding.ts";
import { segmentOf } from "../../../operations/vault/recover.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { openSidecarFile } from "../files/source.ts";
import { namedFileError } from "../folders.ts";

/** What is beside a vault under the name of its sidecar. */
export interface FoundSidecar {
  readonly path: string;
  /** Undefined if there is nothing, or nothing that helps. */
  readonly sidecar: Sidecar | undefined;
  /** Why it does not help; undefined if it does, or if there is nothing. */
  readonly problem: string | undefined;
  close(): Promise<void>;
}

/**
 * The path of the sidecar of a vault that is at `place`: beside the file itself, not beside a link to it. Else the vault
 * as it was named counts, unless that leads to another file by now: the working directory may have changed.
 */
export async function vaultSidecarPath(vault: string, place: string): Promise<string> {
  const [named, known] = await Promise.all([vault, place].map((path) => realpath(path).catch(() => undefined)));
  if (named !== known) return `${place}${SIDECAR_SUFFIX}`;
  const isLink = (await lstat(vault).catch(() => undefined))?.isSymbolicLink() === true; // opening reports the error
  return `${isLink ? await realVault(vault) : vault}${SIDECAR_SUFFIX}`;
}

/**
 * Looks for the sidecar of a vault. The file there may be anything: garbage, a folder, the sidecar of a plain file.
 * None of it prevents the use of the vault's own parity. A sidecar that the user named must be that of a vault.
 */
export async function findVaultSidecar(
  vault: string,
  engine: Engine,
  named?: string | undefined,
): Promise<FoundSidecar> {
  const path = named ?? `${await realpath(vault).catch(() => vault)}${SIDECAR_SUFFIX}`;
  const nothing = { path, sidecar: undefined, close: async () => undefined };
  try {
    const source = await openSidecarFile(path, named === undefined ? "beside" : "named");
    try {
      const sidecar = await readSidecar(source, engine);
      if (sidecar.kind === "vault") return { path, sidecar, problem: undefined, close: () => source.close() };
      throw fileKind(path);
    } catch (error) {
      await source.close();
      throw error;
    }
  } catch (error) {
    if (!isTareError(error) || named !== undefined) throw error;
    return { ...nothing, problem: error.code === "source/not-found" ? undefined : error.message };
  }
}

function fileKind(path: string): UnsupportedError {
  const message = `Cannot use "${path}" for a vault: it is a sidecar of the file as a whole`;
  const hint = "tare correct repair heals the file with it; tare vault parity VAULT export makes one for the vault";
  return new UnsupportedError("unsupported/aerocorrect.kind", message, { source: path }, { hint });
}

/** The real path of a vault, with links followed. */
export function realVault(path: string): Promise<string> {
  return realpath(path).catch((error: unknown) => {
    if (/^(https?|s3):\/\/|::/.test(path)) throw elsewhere(path);
    throw namedFileError(error, `Cannot open "${path}"`, { source: path });
  });
}

/** A vault at a URL or inside another vault is read where it is, and cannot be changed. */
function elsewhere(path: string): UnsupportedError {
  const message = `Cannot change "${path}": only a vault that is a file of this machine can be changed`;
  const hint = "Get it first, with tare pull or tare vault extract";
  return new UnsupportedError("unsupported/vault.place", message, { source: path }, { hint });
}

export interface CompareContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  count(what: string, by?: number): void;
}

/** Compares a vault as a whole with the digest in its sidecar, if it has one: that needs no password. */
export async function compareWithSidecar(
  file: Source,
  vault: string,
  { engine, signal, count }: CompareContext,
): Promise<Finding[]> {
  const { sidecar, close } = await findVaultSidecar(vault, engine);
  try {
    if (sidecar === undefined) return [];
    const { byteLength } = file;
    const digest = await engine.digestRange("sha256", file, { offset: 0, byteLength, signal });
    count("sidecars");
    if (byteLength === sidecar.totalLength && equalBytes(digest, sidecar.contentSha256)) return [];
    const message = `The vault is not the one that "${sidecar.label}" was made of: it was changed since, or is damaged`;
    const hint = "With the password, tare says which of the two";
    return [{ severity: "warning", code: "integrity/aerovault.sidecar", message, at: { source: vault }, hint }];
  } finally {
    await close();
  }
}

/**
 * Says what is beside a vault under the name of its sidecar; undefined if there is nothing. It compares no block: that
 * takes a read of the whole vault.
 */
export async function describeVaultSidecar(
  archive: Archive,
  vault: string,
  engine: Engine,
): Promise<string | undefined> {
  const { path, sidecar, problem, close } = await findVaultSidecar(vault, engine);
  try {
    if (problem !== undefined) return `of no use: ${problem}`;
    if (sidecar === undefined) return undefined;
    // Older versions have no sidecars of this kind.
    const state = archive instanceof VaultArchive ? await stateOfSidecar(archive.vault, sidecar, engine) : "other";
    return `"${path}", ${describeState(state, sidecar)}`;
  } finally {
    await close();
  }
}

type SidecarState = "same" | "unknown" | "other" | "other length";

/** A header and a manifest are sealed again by each change: if parity made of them agrees, the state is the same. */
async function stateOfSidecar({ source, header }: Vault, sidecar: Sidecar, engine: Engine): Promise<SidecarState> {
  if (sidecar.totalLength !== source.byteLength) return "other length";
  const { manifestOffset, manifestLength } = header.values;
  let state: SidecarState = "same";
  for (const [segment, offset, byteLength] of [
    [HEADER_SEGMENT, 0, HEADER_BYTES],
    [MANIFEST_SEGMENT, manifestOffset, manifestLength],
  ] as const) {
    const payload = segmentOf(sidecar, segment);
    const bytes = await source.read(offset, byteLength);
    const found = payload === undefined ? "unknown" : await compareWithParity(engine, bytes, payload);
    if (typeof found === "number") return "other";
    if (found === "unknown") state = "unknown";
  }
  return state;
}

function describeState(state: SidecarState, { totalLength }: Sidecar): string {
  if (state === "other length") return `made of another state, ${totalLength} bytes long`;
  if (state === "other") return "made of another state, or the vault's header or manifest is damaged";
  const blocks = "tare vault scrub compares the blocks";
  if (state === "unknown") return `of which not all can be read here, so its state is not known; ${blocks}`;
  return `made of this header and this manifest; ${blocks}`;
}
