import { describe, expect, test } from "vitest";
import {
  type BuiltChunk,
  buildAero,
  map,
  ONE_TWO_THREE,
  pack,
  phsh,
  smallAero,
  withControlHash,
  wtsh,
} from "../../test/builders/aero.ts";
import { buildSet, countedFolder, SET_NAME } from "../../test/builders/aeroset.ts";
import { READERS, writerById } from "../../test/builders/loaded-formats.ts";
import type { Bytes } from "../base/bytes.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memoryOutput, memorySource } from "../bytes/memory.ts";
import type { Finding, Loss } from "../model/finding.ts";
import type { Opened } from "../model/format.ts";
import { castTensor } from "../model/values/casts.ts";
import { openSource } from "../open.ts";
import { portableEngine } from "../primitives/portable.ts";
import type { ConversionOptions } from "./convert/content.ts";
import { prepareConversion, writeConversion } from "./convert.ts";
import { verify } from "./verify.ts";

/** What the string table and the chunks of digests hold besides what readers need. */

const engine = portableEngine();
const TAIL = encodeUtf8("more of it");
const open = (bytes: Bytes): Promise<Opened> => openSource(memorySource(bytes, "m.aero"));
const small = (...more: readonly BuiltChunk[]): Bytes => buildAero({ chunks: [...smallAero(), ...more] });
const pages = phsh(wtsh(ONE_TWO_THREE), 8, { note: "x", more: [1] });
const named = { ...pages, content: pack(map({ shard_name: "other", page_size: 12, digests: [pagesDigest()] })) };

function pagesDigest(): Bytes {
  return phsh(wtsh(ONE_TWO_THREE), 12).content.slice(-32);
}

/** The shard's name goes on in the string table, beyond what its entry takes. */
function withTableBytes(): Bytes {
  const chunks = smallAero();
  const last = chunks.at(-1) as BuiltChunk;
  return buildAero({
    chunks: [...chunks.slice(0, -1), { ...last, name: `${String(last.name)} and more`, nameLen: 14 }],
  });
}

const CASES: readonly (readonly [string, Bytes, Partial<Loss>])[] = [
  ["further keys of IHSH", withControlHash({ chunks: smallAero() }, { more: { note: "x" } }), { name: "IHSH.note" }],
  [
    "bytes after the value of IHSH",
    withControlHash({ chunks: smallAero() }, { tail: TAIL, paddedTo: 256 }),
    { reason: "they lie after the value of IHSH" },
  ],
  [
    "a second value in IHSH",
    withControlHash({ chunks: smallAero() }, { tail: pack(map({ more: "x" })) }),
    { reason: "they lie after the value of IHSH" },
  ],
  ["further keys of PHSH", small(pages), { name: "PHSH.note" }],
  ["another shard's name in PHSH", small(named), { name: "PHSH.shard_name" }],
  [
    "bytes of the string table",
    withTableBytes(),
    { name: "9 bytes from 473", reason: "they lie in the string table, and no chunk has them as its name" },
  ],
  ["an empty shard", small(wtsh(new Uint8Array(), 7)), { reason: "weights that no tensor refers to" }],
];

function plan(opened: Opened, to: string, options: Partial<ConversionOptions> = {}) {
  return prepareConversion(opened, writerById(to), { name: `m.${to}`, formats: READERS, ...options });
}

describe.each(CASES)("%s", (_what, bytes, loss) => {
  test.each([
    ["aero", {}],
    ["aero", { maxShardBytes: 1 << 20 }],
    ["aero", { dtype: "F16" }],
    ["aero", { transform: (tensor: Parameters<typeof castTensor>[0]) => castTensor(tensor, "F16") }],
    ["safetensors", {}],
    ["gguf", {}],
    ["apr", {}],
  ] as const)("are a loss on the way to %s, %j", async (to, options) => {
    await expect(plan(await open(bytes), to, options)).rejects.toMatchObject({ code: "unsupported/lossy" });
    const { losses } = (await plan(await open(bytes), to, { ...options, allowLossy: "allow-lossy" })).plan;
    expect(losses).toEqual([expect.objectContaining(loss)]);
  });
});

test.each([
  ["zeros after the value of IHSH", withControlHash({ chunks: smallAero() }, { paddedTo: 256 })],
  ["NULs between names", small()],
  ["page digests", small(phsh(wtsh(ONE_TWO_THREE), 8))],
  ["a file without tensors that our writer made", await emptied()],
])("%s are no loss", async (_what, bytes) => {
  expect((await plan(await open(bytes), "aero")).plan.losses).toEqual([]);
  expect(await findings(bytes)).toEqual([]);
});

async function emptied(): Promise<Bytes> {
  const output = memoryOutput("m.aero");
  await writeConversion(await plan(await open(small()), "aero", { exclude: ["*"] }), output, { engine });
  return output.files.get("m.aero") as Bytes;
}

async function findings(bytes: Bytes): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  const report = await verify(await open(bytes), { engine, level: "full" });
  for (const finding of report.findings) if (finding.code === "format/aero.surplus") found.push(finding);
  return found;
}

test("verify tells bytes that the specification has no place for", async () => {
  for (const [what, bytes] of CASES) {
    const isForbidden = what.includes("bytes") || what.includes("second value");
    const codes = (await findings(bytes)).map(({ code, severity }) => [code, severity]);
    expect(codes, what).toEqual(isForbidden ? [["format/aero.surplus", "warning"]] : []);
  }
});

test("the parts of a set have the same losses", async () => {
  const files = buildSet();
  const part = files.get("part-000.aero") as Bytes;
  const view = new DataView(part.buffer, part.byteOffset);
  part[Number(view.getBigUint64(28, true)) + Number(view.getBigUint64(36, true)) - 1] = 0x78;
  const resolver = countedFolder(files);
  const opened = await openSource(await resolver.resolve(SET_NAME), { resolver });
  const { losses } = (await plan(opened, "gguf", { allowLossy: "allow-lossy" })).plan;
  expect(losses).toEqual([
    { name: expect.any(String), reason: expect.stringContaining("part-000"), at: expect.anything() },
  ]);
});
