import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { fileInput, fixedRandom, TestVault } from "../../../../test/builders/vault.ts";
import { type Content, makeContent } from "../../../../test/builders/vault-content.ts";
import { streamZstd, ZSTD_VERSION } from "../../../../test/support/streaming-zstd.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { nativeEngine } from "../../../platform/node/engine/native.ts";
import type { VaultArchive } from "../archive.ts";
import { openAerovault } from "../open.ts";
import { closeVault } from "../vault.ts";
import { levelSettings, type VaultSettings } from "./profiles.ts";

type Files = readonly (readonly [path: string, content: Content])[];
type Step =
  | readonly ["mkdir", string]
  | readonly ["add", Files]
  | readonly ["cp" | "mv", string, string]
  | readonly ["rm", readonly string[]]
  | readonly ["passwd", string];

interface Case {
  readonly name: string;
  readonly settings: VaultSettings;
  readonly password?: string;
  readonly parityPercent?: number;
  readonly steps: readonly Step[];
  /** SHA-256 of the file after creation and after every step: the first twelve digits, for the last step all digits. */
  readonly digests: readonly string[];
  /**
   * SHA-256 over chunks and entries of the last state, for vaults whose frames other versions of zstd write
   * differently: with those versions, only this and the first digest are compared.
   */
  readonly structure?: string;
}

const lines = (seed: string, len: number): Content => ({ kind: "lines", seed, len });
const words = (seed: string, len: number): Content => ({ kind: "words", seed, len });
const noise = (seed: string, len: number): Content => ({ kind: "sha256ctr", seed, len });
const text = (value: string): Content => ({ kind: "utf8", text: value });

const GOLDEN_PASSWORD = "aerovault-fixture-pw";
const PATTERN = "AeroVault v3 cross-impl big-file pattern block. ";

/**
 * Vaults from the reference's own deterministic test mode, or from its repository ("golden"), with the SHA-256 of its
 * files. With a fixed random stream and a stopped clock, our vaults are the same, byte for byte, after every step.
 */
const CASES: readonly Case[] = [
  {
    name: "golden",
    settings: levelSettings(9),
    password: GOLDEN_PASSWORD,
    steps: [
      ["mkdir", "emptydir"],
      [
        "add",
        [
          ["readme.txt", text("AeroVault v3 cross-impl fixture\n")],
          ["data/small.bin", { kind: "byte", byte: 0xa5, len: 1000 }],
          ["data/big.bin", text(PATTERN.repeat(6250))],
        ],
      ],
    ],
    digests: ["11d08e451749", "d05b6411aa06", "f9785d09281f3e1fbc16abb99f7f364440db05d8678317292109349eb707feb0"],
  },
  {
    name: "every verb",
    settings: levelSettings(9),
    password: "det-shared-pass",
    steps: [
      ["mkdir", "empty/inner"],
      [
        "add",
        [
          ["a.txt", text("hello\n")],
          ["z/empty", text("")],
          ["big.log", lines("sha", 700_000)],
          ["uni/é-😀.txt", text("u")],
          ["uni/~～", text("v")],
        ],
      ],
      ["cp", "z", "zz"],
      ["mv", "a.txt", "m/n/a.txt"],
      ["rm", ["uni"]],
      ["add", [["late.txt", words("0x3305", 3000)]]],
      ["passwd", "det-shared-pass-ü"],
    ],
    digests: [
      "07f911f7278a",
      "649930860cb9",
      "c95e44ed2cd0",
      "f7ef28fe3e8f",
      "8bb995b68aa6",
      "e65663ab740f",
      "ce2d1136d61d",
      "6b6ebaa7795f51d387eac6f1f732cc1a8638e5829f3749fb0874800c646f3534",
    ],
  },
  {
    name: "several chunks",
    settings: levelSettings(9),
    password: "det-shared-pass",
    steps: [
      [
        "add",
        [
          ["lines.txt", lines("shm", 3_300_000)],
          ["zeros.bin", { kind: "byte", byte: 0, len: 2_500_000 }],
          ["words.txt", words("0x3306", 90_000)],
          ["p/one.txt", lines("sho", 200_001)],
        ],
      ],
    ],
    digests: ["07f911f7278a", "f9a9dbd91a6f2dcfa1e052fb2153114a721b7a0b2da225bda5d9a01e09970e7e"],
    structure: "67e343d430e874a3a202712426049037542844fd0c177362580095df9183fd97",
  },
  {
    name: "two packs",
    settings: levelSettings(3),
    password: "det-shared-pass",
    steps: [
      [
        "add",
        Array.from({ length: 34 }, (_, i) => {
          const path = `d/f${String(i).padStart(2, "0")}.txt`;
          return [path, lines(`shk${i}`, 150_000 + 1717 * i)] as const;
        }),
      ],
    ],
    digests: ["7e59b47ff723", "4b0e1c0d71515a6d7ee05392c21d0b109133a7d4d96bcf11457d369bd5459dfe"],
    structure: "537160b11721802aed32646e85f5072c20b1355af8c3e4a978665fb1c2567f67",
  },
  {
    name: "short chunks, raw ones, parity, replacing and removing",
    settings: { level: 9, bounds: { min: 4096, avg: 8192, max: 65_536 } },
    password: "det-shared-pass",
    parityPercent: 15,
    steps: [
      [
        "add",
        [
          ["x.bin", { kind: "xs", seed: "0x3307", len: 40_000 }],
          ["w.txt", words("0x3308", 60_000)],
          ["mix", { kind: "concat", parts: [noise("shq", 7000), lines("shq", 30_000), noise("shr", 9000)] }],
          ["dir/e", text("")],
        ],
      ],
      ["add", [["x.bin", { kind: "xs", seed: "0x3309", len: 12_000 }]]],
      ["rm", ["w.txt"]],
    ],
    digests: [
      "eb558bcadf8c",
      "ae0cfcad96db",
      "21783c1894b2",
      "3dd2bb4d9e5c0e32d0f70503499ae015dde3189a229782a4a0edd796d6b96774",
    ],
  },
  {
    name: "archive",
    settings: levelSettings(19),
    password: "det-shared-pass",
    steps: [
      [
        "add",
        [
          ["a.log", lines("shl19", 6_500_000)],
          ["b.log", lines("shb19", 300_000)],
          ["c.txt", words("0x330a", 1000)],
        ],
      ],
    ],
    digests: ["abbbc196a037", "6167309821860964e063b72328bf772a276dc8cd15625d8fd6ae8b9691f4780a"],
  },
  {
    name: "no encryption, parity",
    settings: levelSettings(9),
    parityPercent: 20,
    steps: [
      [
        "add",
        [
          ["a.txt", text("hello\n")],
          ["n.bin", noise("shn", 5000)],
        ],
      ],
      ["mkdir", "d"],
    ],
    digests: ["a682f54d95f0", "ead2956b826b", "eaac68d39a9bc198268743b15ec1e040c552b8155dd4858b4ea04c91862c8461"],
  },
  {
    name: "no encryption",
    settings: levelSettings(9),
    steps: [["add", [["a.txt", text("hello\n")]]]],
    digests: ["ccbc9be646ef", "b1246c82ead613f990cac28ad7f39137283d3c89671da68c77d183ed405f44b4"],
  },
];

const engine = await nativeEngine();
/** The reference's vaults hold frames of this version; an older one makes other frames of longer chunks. */
const isReferenceZstd = ZSTD_VERSION === "1.5.7";

async function apply(vault: TestVault, step: Step): Promise<void> {
  const [verb, first, second] = step;
  if (verb === "mkdir") await vault.mkdir(first);
  else if (verb === "add") await vault.add(first.map(([path, content]) => fileInput(path, makeContent(content))));
  else if (verb === "rm") await vault.remove(first);
  else if (verb === "passwd") await vault.passwd(first);
  else if (verb === "cp") await vault.copy(first, second);
  else await vault.move(first, second);
}

function digest(bytes: Uint8Array, digits: number): string {
  return createHash("sha256").update(bytes).digest("hex").slice(0, digits);
}

/** Everything about chunks and entries that does not depend on compression. */
async function structureOf(testVault: TestVault): Promise<string> {
  const vault = await testVault.open();
  try {
    const { entries, chunks } = vault.manifest;
    const records = [...chunks.values()].map((one) => [one.id, one.blockIndex, one.plaintextLen, one.storedRaw]);
    const files = entries
      .records()
      .map(({ path, size, isDir, chunks: ids, packOffset }) => [path, size, isDir, ids, packOffset]);
    return digest(Buffer.from(JSON.stringify([records.sort(), files])), 64);
  } finally {
    await closeVault(vault);
  }
}

describe("the reference's vaults are rebuilt byte for byte", () => {
  for (const { name, settings, password, parityPercent, steps, digests, structure } of CASES) {
    test(name, async () => {
      const random = await fixedRandom();
      const vault = new TestVault({ engine, random, compress: streamZstd, manner: "reference" });
      await vault.create(settings, {
        ...(password === undefined ? {} : { password }),
        ...(parityPercent === undefined ? {} : { parityPercent }),
      });
      const found = [digest(vault.bytes, digests[0]?.length ?? 0)];
      for (const [i, step] of steps.entries()) {
        await apply(vault, step);
        found.push(digest(vault.bytes, digests[i + 1]?.length ?? 0));
      }
      if (structure !== undefined) expect(await structureOf(vault)).toBe(structure);
      if (structure === undefined || isReferenceZstd) expect(found).toEqual(digests);
      else expect(found[0]).toBe(digests[0]);
    });
  }
});

test("the golden opens only with its password and has its five entries", async () => {
  const golden = CASES[0] as Case;
  const vault = new TestVault({ engine, random: await fixedRandom(), compress: streamZstd, manner: "reference" });
  await vault.create(golden.settings, { password: GOLDEN_PASSWORD });
  for (const step of golden.steps) await apply(vault, step);
  expect(digest(vault.bytes, 64)).toBe(golden.digests.at(-1));
  const open = (password: string): Promise<VaultArchive> =>
    openAerovault(memorySource(vault.bytes), { engine, limits: {}, password: async () => encodeUtf8(password) });
  await expect(open("Aerovault-fixture-pw")).rejects.toMatchObject({ code: "usage/password.wrong" });
  const archive = await open(GOLDEN_PASSWORD);
  const kinds = archive.entries.map(({ path, type, size }) => [path, type, size]);
  expect(kinds.sort()).toEqual([
    ["data", "directory", 0],
    ["data/big.bin", "file", 300_000],
    ["data/small.bin", "file", 1000],
    ["emptydir", "directory", 0],
    ["readme.txt", "file", 32],
  ]);
  const read = async (path: string): Promise<string> => {
    const entry = archive.entry(path);
    return Buffer.from(await entry.source().read(0, entry.size)).toString("latin1");
  };
  expect(await read("readme.txt")).toBe("AeroVault v3 cross-impl fixture\n");
  expect(await read("data/small.bin")).toBe("\u00a5".repeat(1000));
  expect(await read("data/big.bin")).toBe(PATTERN.repeat(6250));
  await archive.close();
});
