import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { Bytes } from "../../../base/bytes.ts";
import { UnsupportedError } from "../../../base/errors.ts";
import type { Blake3Implementation, DigestImplementation } from "../../../primitives/digest/implementation.ts";
import type { Engine, Hasher } from "../../../primitives/engine.ts";
import { tableEngine } from "../../../primitives/portable.ts";
import { type Accelerators, portableTable } from "../../../primitives/table.ts";
import type { Tiers } from "../../../primitives/tiers.ts";
import { NODE_AES, NODE_ARGON2, NODE_ED25519, NODE_GCM_SIV, NODE_SHA512 } from "./crypto.ts";
import { NODE_AES_BLOCKS, NODE_CHACHA, NODE_INFLATE, NODE_PBKDF2, NODE_SHA1 } from "./legacy-crypto.ts";
import { NATIVE_ZSTD } from "./zstd.ts";

export interface NativeOptions {
  /** What to do if a native part does not load; "use-portable" if absent. */
  readonly missing?: "use-portable" | "refuse";
}

/**
 * The native code of Node and of the optional addons, with the portable implementations as fallback. With `missing:
 * "refuse"` every part is loaded now, and `unsupported/engine.native` names those that do not load.
 */
export async function nativeEngine(options: NativeOptions = {}): Promise<Engine> {
  const table = portableTable({}, ACCELERATORS);
  if (options.missing === "refuse") await checkAllNative(Object.values(table));
  return tableEngine("native", table);
}

const ACCELERATORS: Accelerators = {
  sha256: { tier: "native", implementation: "node:crypto", load: async () => nodeSha256 },
  blake3: { tier: "native", implementation: "@napi-rs/blake-hash", load: loadBlake3 },
  crc32: { tier: "native", implementation: "node:zlib", load: async () => (bytes, seed) => crc32(bytes, seed) },
  zstd: NATIVE_ZSTD,
  sha512: NODE_SHA512,
  aes: NODE_AES,
  ed25519: NODE_ED25519,
  argon2id: NODE_ARGON2,
  gcmSiv: NODE_GCM_SIV,
  sha1: NODE_SHA1,
  aesBlocks: NODE_AES_BLOCKS,
  chacha: NODE_CHACHA,
  pbkdf2: NODE_PBKDF2,
  inflate: NODE_INFLATE,
};

const nodeSha256: DigestImplementation = {
  create(): Hasher {
    const hash = createHash("sha256");
    return {
      update(bytes) {
        hash.update(bytes);
      },
      digest: () => new Uint8Array(hash.digest()),
    };
  },
};

async function loadBlake3(): Promise<Blake3Implementation> {
  const { loadBlakeAddon } = await import("./addons.ts");
  const { Blake3Hasher } = await loadBlakeAddon();
  const wrap = (hasher: InstanceType<typeof Blake3Hasher>): Hasher => ({
    update(bytes: Bytes) {
      hasher.update(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    },
    digest: () => new Uint8Array(hasher.digestBuffer()),
  });
  return {
    create: () => wrap(new Blake3Hasher()),
    keyed(key) {
      const own = Buffer.from(key);
      // The addon's hashers have copies that only its own memory management erases.
      return { create: () => wrap(Blake3Hasher.newKeyed(own)), wipe: () => void own.fill(0) };
    },
  };
}

/**
 * Not required: our kernels are as fast as the packages, or there is no package; and one password takes a second at
 * most.
 */
const OWN_KERNELS: ReadonlySet<string> = new Set(["lz4", "quantizer", "argon2id", "gear", "reed-solomon"]);

async function checkAllNative(rows: readonly Tiers<unknown>[]): Promise<void> {
  await Promise.all(rows.map((row) => row.get()));
  const missing = rows
    .filter((row) => row.tier !== "native" && !OWN_KERNELS.has(row.primitive))
    .map((row) => row.primitive);
  if (missing.length === 0) return;
  const message = `Cannot use the native engine: native ${missing.join(", ")} must load and give the known answer`;
  throw new UnsupportedError(
    "unsupported/engine.native",
    message,
    { source: "engine" },
    {
      hint: "Pass the option engine auto, or reinstall with the optional packages @napi-rs/blake-hash and @cloudpss/zstd",
    },
  );
}
