import { lstat, realpath } from "node:fs/promises";
import { equalBytes } from "../../base/bytes.ts";
import { isTareError, UnsupportedError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import { SIDECAR_SUFFIX } from "../../formats/aerocorrect/layout.ts";
import { readSidecar } from "../../formats/aerocorrect/read.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import type { Finding } from "../../model/finding.ts";
import type { Engine } from "../../primitives/engine.ts";
import { fileError } from "./errors.ts";
import { openSidecarFile } from "./sidecar-file.ts";

/** What stands beside a vault under the name of its sidecar. */
export interface FoundSidecar {
  readonly path: string;
  /** Undefined where there is nothing, or nothing that helps. */
  readonly sidecar: Sidecar | undefined;
  /** Why it does not help; undefined where it does, or where there is nothing. */
  readonly problem: string | undefined;
  close(): Promise<void>;
}

/** Where the sidecar of a vault is: beside the file itself, not beside a link to it. */
export async function vaultSidecarPath(vault: string): Promise<string> {
  const isLink = (await lstat(vault).catch(() => undefined))?.isSymbolicLink() === true; // opening tells what is missing
  return `${isLink ? await realVault(vault) : vault}${SIDECAR_SUFFIX}`;
}

/**
 * Looks for the sidecar of a vault. What is there may be anything: garbage, a folder, the sidecar of a file; none of it
 * stands in the way of the parity that the vault carries itself. One that was named must be the sidecar of a vault.
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

/** The real path of a vault, links followed. */
export function realVault(path: string): Promise<string> {
  return realpath(path).catch((error: unknown) => {
    if (/^(https?|s3):\/\/|::/.test(path)) throw elsewhere(path);
    throw fileError(error, `Cannot open "${path}"`, { source: path });
  });
}

/** What is behind a URL or inside another vault is read in its place; nothing there can be changed. */
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

/** Compares a vault as a whole with the digest in its sidecar, where it has one: that needs no password. */
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
    const hint = "Which of the two is told with the password";
    return [{ severity: "warning", code: "integrity/aerovault.sidecar", message, at: { source: vault }, hint }];
  } finally {
    await close();
  }
}
