import { encodeUtf8 } from "../../src/base/text.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { craftVault2 } from "../builders/vault2.ts";
import { xorshiftBytes } from "../vectors/xorshift.ts";
import type { FuzzInput } from "./fuzz-input.ts";

const TEXT = encodeUtf8("a line of text that repeats itself\n".repeat(60));

/** Older vaults are always encrypted: these open with the password of the builders. Empty for other formats. */
export async function olderVaults(id: string): Promise<FuzzInput[]> {
  if (id === "aerovault1") return ofVersion1();
  return id === "aerovault2" ? ofVersion2() : [];
}

async function ofVersion1(): Promise<FuzzInput[]> {
  const files = [
    { path: "a.txt", bytes: TEXT, version: 1 },
    { path: "d/", compress: "stored" },
    { path: "d/n", bytes: xorshiftBytes(900, 3n), compress: "stored" },
  ] as const;
  return [
    lone("deflated.aerovault", await craftVault1(files)),
    lone("zip64.aerovault", await craftVault1(files, { zip64: "always" })),
    lone("empty.aerovault", await craftVault1([])),
  ];
}

async function ofVersion2(): Promise<FuzzInput[]> {
  const files = [
    { path: "d", type: "directory" },
    { path: "d/a", chunks: [xorshiftBytes(4096, 1n), xorshiftBytes(700, 2n)] },
    { path: "old", chunks: [xorshiftBytes(60, 3n), xorshiftBytes(5, 4n)], binding: "unbound" },
  ] as const;
  return [
    lone("one.av2", await craftVault2(files)),
    lone("cascade.av2", await craftVault2(files, { layers: "two", revision: 2 })),
    lone("empty.av2", await craftVault2([])),
  ];
}

function lone(primary: string, bytes: Uint8Array<ArrayBuffer>): FuzzInput {
  return { primary, files: new Map([[primary, bytes]]) };
}
