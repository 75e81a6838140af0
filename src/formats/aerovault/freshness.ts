import { concatBytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, SourceError } from "../../base/errors.ts";
import { readFresh } from "../../bytes/layers/base.ts";
import { GCM_SIV_NONCE_BYTES, GCM_SIV_TAG_BYTES } from "../../primitives/cipher/gcm-siv.ts";
import { HEADER_BYTES } from "./layout.ts";
import type { Vault } from "./vault.ts";

/** What tells one state of a vault from all later ones. Until the manifest was read, the header has to do. */
export type OpenedState = Pick<Vault, "source" | "header"> & Partial<Pick<Vault, "manifestSeal" | "healed">>;

/**
 * A writer that works in place uses the room of what an earlier change removed. So a reader of the state before that
 * finds other bytes in a sound vault. Returns the error to report: `source/changed` if the fault can come of that.
 */
export async function explainFault(error: unknown, state: OpenedState): Promise<unknown> {
  return isFault(error) && (await isReplaced(state)) ? changedError(state, error) : error;
}

/** Throws `source/changed` if the vault is no longer in the state that was opened: what was found may not be damage. */
export async function checkCurrent(state: OpenedState): Promise<void> {
  if (await isReplaced(state)) throw changedError(state);
}

function changedError({ source: { label } }: OpenedState, cause?: unknown): SourceError {
  const message = `Cannot read "${label}": it was changed since it was opened`;
  const hint = "Run the command again, or open the vault again";
  return new SourceError("source/changed", message, { source: label }, { hint, cause });
}

/** Errors that other bytes than those that were opened can cause; a change can also cut the file. */
function isFault(error: unknown): boolean {
  if (error instanceof IntegrityError || error instanceof FormatError) return true;
  return isTareError(error) && (error.code === "source/truncated" || error.code === "source/out-of-range");
}

/** Whether the file has another state by now. What a writer has written before it commits is not one. */
async function isReplaced({ source, header, manifestSeal, healed = [] }: OpenedState): Promise<boolean> {
  // What was read from parity is not in the file.
  const isHealed = (part: string): boolean => healed.some(({ name }) => name === part);
  if (isHealed("header")) return false;
  try {
    if (!equalBytes(await readFresh(source, 0, HEADER_BYTES), header.bytes)) return true;
    if (manifestSeal === undefined || isHealed("manifest")) return false;
    // Two states can have equal headers: then their manifests have other nonces and tags.
    const { manifestOffset, manifestLength } = header.values;
    const nonce = await readFresh(source, manifestOffset, GCM_SIV_NONCE_BYTES);
    const tag = await readFresh(source, manifestOffset + manifestLength - GCM_SIV_TAG_BYTES, GCM_SIV_TAG_BYTES);
    return !equalBytes(concatBytes([nonce, tag]), manifestSeal);
  } catch (error) {
    if (isTareError(error)) return false;
    throw error;
  }
}
