import { type Bytes, equalBytes } from "../../src/base/bytes.ts";
import { vaultHeader } from "../../src/formats/aerovault/layout.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { damage, exportBytes, readAll, repairBytes, scrubBytes, type VaultTools } from "../builders/damaged-vault.ts";
import { fileInput, fixedRandom, rememberingKeys, TestVault } from "../builders/vault.ts";
import { makeXorshift } from "../builders/vault-content.ts";

/**
 * Every byte of a vault with parity flipped in turn. No wrong plaintext, whatever is flipped; blocks and manifest are found
 * to be damaged and healed, the header is healed with a sidecar and refused without, the list of extensions is found and
 * healed, parity is found and renewed.
 */

const PASSWORD = "every byte in turn";
const FILES: ReadonlyMap<string, Bytes> = new Map([
  ["a.bin", makeXorshift(11n, 9000)],
  ["dir/b.bin", makeXorshift(12n, 34_500)],
  ["dir/c.txt", new TextEncoder().encode("the quick brown fox jumps over the lazy dog\n".repeat(40))],
]);

/** A vault of some 64 KiB, what it is opened with, and its sidecar. */
export interface FlipCase {
  readonly bytes: Bytes;
  readonly sidecar: Bytes;
  readonly tools: VaultTools;
}

export async function makeFlipCase(engine: Engine): Promise<FlipCase> {
  // The same vault in every run, so that it can be gone through in parts.
  const vault = new TestVault({ engine, layout: "rewrite", random: await fixedRandom() });
  const settings = { level: 3, bounds: { min: 4096, avg: 8192, max: 65_536 } };
  await vault.create(settings, { password: PASSWORD, parityPercent: 20 });
  await vault.add([...FILES].map(([path, bytes]) => fileInput(path, bytes)));
  const tools = { engine: rememberingKeys(engine), password: PASSWORD };
  return { bytes: vault.bytes, sidecar: await exportBytes(vault.bytes, tools), tools };
}

export type Region = "header" | "blocks" | "manifest" | "extension directory" | "parity";

/** Which part of the vault a byte belongs to; between the parts there is nothing in a vault that was written at once. */
export function regionOf(bytes: Bytes, offset: number): Region {
  const header = vaultHeader.decode(bytes, { source: "vault" });
  if (offset < header.dataOffset) return "header";
  if (offset < header.dataOffset + header.dataLength) return "blocks";
  if (offset < header.manifestOffset + header.manifestLength) return "manifest";
  return offset < header.extensionPayloadOffset ? "extension directory" : "parity";
}

/** What is wrong with the answers to one flipped byte; undefined where all of them are right. */
export async function tryFlip({ bytes, sidecar, tools }: FlipCase, offset: number): Promise<string | undefined> {
  const damaged = damage(bytes, [offset, 1, 1 << (offset % 8)]);
  const region = regionOf(bytes, offset);
  const wrong = await findWrongPlaintext(damaged, tools);
  if (wrong !== undefined) return `byte ${offset} of the ${region}: wrong plaintext of ${wrong}`;
  const found = await scrubBytes(damaged, tools);
  const isFound = "code" in found || found.length > 0;
  if (!isFound) return `byte ${offset} of the ${region}: scrub finds nothing`;
  const alone = await repairBytes(damaged, tools);
  const isAlone = "bytes" in alone && equalBytes(alone.bytes, bytes);
  if (region === "header" ? isAlone : !isAlone) {
    return `byte ${offset} of the ${region}: ${isAlone ? "healed without a sidecar" : "not healed"}`;
  }
  if (region !== "header") return undefined;
  if (!("code" in alone)) return `byte ${offset} of the header: not refused`;
  const beside = await repairBytes(damaged, tools, sidecar);
  const isHealed = "bytes" in beside && equalBytes(beside.bytes, bytes);
  return isHealed ? undefined : `byte ${offset} of the header: not healed by the sidecar`;
}

async function findWrongPlaintext(damaged: Bytes, tools: VaultTools): Promise<string | undefined> {
  const files = await readAll(damaged, tools);
  if ("code" in files) return undefined;
  for (const [path, content] of files) {
    const original = FILES.get(path);
    if (original === undefined || (typeof content !== "string" && !equalBytes(content, original))) return path;
  }
  return undefined;
}
