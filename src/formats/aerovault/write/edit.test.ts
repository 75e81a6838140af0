import { describe, expect, onTestFinished, test, vi } from "vitest";
import { fileInput, MemoryDraft, TestVault } from "../../../../test/builders/vault.ts";
import { makeXorshift } from "../../../../test/builders/vault-content.ts";
import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { nativeEngine } from "../../../platform/node/engine/native.ts";
import type { VaultArchive } from "../archive.ts";
import { blockExtent } from "../blocks/check.ts";
import { DATA_PARITY, parityRow } from "../extensions/rows.ts";
import { NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { ChunkRecord } from "../manifest/records.ts";
import { openAerovault } from "../open.ts";
import { closeVault } from "../vault.ts";
import { VaultEdit } from "./edit.ts";
import { profileSettings } from "./profiles.ts";
import { stateOf } from "./state.ts";

const engine = await nativeEngine();
const SHORT = { level: 3, bounds: { min: 4096, avg: 8192, max: 65_536 } };

/** Not encrypted, so that opening does not take a second; both lanes behave the same in these tests. */
async function plainVault(settings = SHORT): Promise<TestVault> {
  const vault = new TestVault({ engine });
  await vault.create(settings);
  return vault;
}

/** Every file by its path, read and checked. */
async function contents(bytes: Bytes): Promise<Map<string, string>> {
  const archive = await openAerovault(memorySource(bytes), { engine, limits: {} });
  const found = new Map<string, string>();
  for (const entry of archive.entries) {
    if (entry.type === "file")
      found.set(entry.path, Buffer.from(await entry.source().read(0, entry.size)).toString("hex"));
  }
  await archive.close();
  return found;
}

function hex(bytes: Bytes): string {
  return Buffer.from(bytes).toString("hex");
}

describe("changes that cost what they change", () => {
  test("making a directory touches no stored block, and the file does not grow for ever", async () => {
    const vault = await plainVault();
    const data = makeXorshift(5n, 300_000);
    await vault.add([fileInput("big", data)]);
    const before = vault.bytes.slice();
    const sizes: number[] = [];
    for (let i = 0; i < 12; i++) {
      await vault.mkdir(`d${i}`);
      sizes.push(vault.bytes.byteLength);
    }
    const dataEnd = Math.max(...(await blockEnds(vault)));
    expect(equalBytes(vault.bytes.subarray(1024, dataEnd), before.subarray(1024, dataEnd))).toBe(true);
    const manifestBytes = before.byteLength - dataEnd;
    expect(Math.max(...sizes)).toBeLessThan(dataEnd + 5 * (manifestBytes + 12 * 200));
    expect((await contents(vault.bytes)).get("big")).toBe(hex(data));
  });

  test("the next add uses the room that a removal frees", async () => {
    const vault = await plainVault();
    await vault.add([fileInput("a", makeXorshift(1n, 400_000)), fileInput("b", makeXorshift(2n, 300_000))]);
    await vault.remove(["a"]);
    const before = vault.bytes.byteLength;
    const replacement = makeXorshift(3n, 390_000);
    await vault.add([fileInput("c", replacement)]);
    expect(vault.bytes.byteLength).toBeLessThan(before + 60_000);
    expect((await contents(vault.bytes)).get("c")).toBe(hex(replacement));
  });

  test("rewriting leaves no unused bytes", async () => {
    const vault = await plainVault();
    await vault.add([fileInput("a", makeXorshift(1n, 400_000)), fileInput("b", makeXorshift(2n, 300_000))]);
    await vault.remove(["a"]);
    await vault.edit(async (edit) => edit.dropUnreferenced(), undefined, "rewrite");
    expect(vault.bytes.byteLength).toBeLessThan(330_000);
    expect([...(await contents(vault.bytes)).keys()]).toEqual(["b"]);
  });

  async function blockEnds(vault: TestVault): Promise<number[]> {
    const opened = await vault.open();
    const ends = [...opened.manifest.chunks.values()].map((record) => {
      const { offset, byteLength } = blockExtent(record);
      return offset + byteLength;
    });
    await closeVault(opened);
    return ends;
  }
});

test("until the header is written, the vault stays as it was, no matter what was written before", async () => {
  const vault = await plainVault();
  await vault.add([fileInput("a", makeXorshift(1n, 400_000)), fileInput("dir/b", makeXorshift(2n, 20_000))]);
  await vault.remove(["a"]);
  const steps: ((edit: VaultEdit) => Promise<unknown>)[] = [
    async (edit) => edit.tree.makeDirectory("x/y", edit.now),
    async (edit) => edit.tree.move("dir", "moved", edit.now),
    async (edit) => edit.tree.remove(["moved/b"], "recursive"),
  ];
  for (const step of steps) {
    const before = vault.bytes.slice();
    const was = await contents(before);
    const opened = await vault.open();
    const draft = new MemoryDraft(before);
    const states: Bytes[] = [];
    const recording = new Proxy(draft, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (name !== "write") return typeof value === "function" ? value.bind(target) : value;
        return async (offset: number, bytes: Bytes) => {
          await target.write(offset, bytes);
          states.push(target.bytes.slice());
        };
      },
    });
    const host = { engine, random: fixed, now: () => "2026-06-17T00:00:00Z" };
    const edit = new VaultEdit({
      state: stateOf(opened),
      draft: recording,
      cipher: opened.cipher,
      host,
      layout: "update",
    });
    await step(edit);
    await edit.seal();
    await closeVault(opened);
    expect(states.length).toBeGreaterThan(0);
    // The old header with everything else that was written: the state after a crash before the last step.
    for (const state of states)
      expect(await contents(concatBytes([before.subarray(0, 1024), state.subarray(1024)]))).toEqual(was);
    vault.bytes = draft.committed as Bytes;
  }
});

function fixed(length: number): Bytes {
  return new Uint8Array(length).fill(7);
}

describe("deduplication", () => {
  test("the same files again add nothing", async () => {
    const vault = await plainVault();
    const files = Array.from({ length: 40 }, (_, i) => fileInput(`f${i}`, makeXorshift(BigInt(i), 5000)));
    await vault.add([...files, fileInput("large", makeXorshift(99n, 300_000))]);
    const stored = await storedBlocks(vault);
    const again = await vault.edit(async (edit) => edit.storedBlocks);
    expect(again).toBe(0);
    await vault.add([...files, fileInput("copy of large", makeXorshift(99n, 300_000))]);
    expect(await storedBlocks(vault)).toBe(stored);
  });

  test("files of a pack whose chunks are all the same share one block, and each reads its own part of it", async () => {
    const vault = await plainVault();
    const sizes = Array.from({ length: 60 }, (_, i) => 100_000 + 13 * i);
    await vault.add(sizes.map((size, i) => fileInput(`zeros-${i}`, new Uint8Array(size))));
    const opened = await vault.open();
    const { chunks } = opened.manifest;
    const entries = opened.manifest.entries.records();
    const listed = entries.flatMap((entry) => entry.chunks);
    await closeVault(opened);
    // Two packs of more than four mebibytes of zeros: chunks of one length, and a shorter one at each end.
    expect(chunks.size).toBeLessThanOrEqual(3);
    expect(listed.length).toBeGreaterThan(20 * chunks.size);
    expect(entries.some((entry) => new Set(entry.chunks).size < entry.chunks.length)).toBe(true);
    const found = await contents(vault.bytes);
    for (const [i, size] of sizes.entries()) expect(found.get(`zeros-${i}`)).toBe("00".repeat(size));
  });

  test("an edit costs a few chunks with the keyed chunker, and all later ones with the reference's", async () => {
    const original = makeXorshift(11n, 2_000_000);
    const edited = concatBytes([original.subarray(0, 500_000), makeXorshift(12n, 10_000), original.subarray(500_000)]);
    const added: Record<string, number> = {};
    for (const chunker of ["keyed", "reference"] as const) {
      const vault = new TestVault({ engine, chunker });
      await vault.create(SHORT);
      await vault.add([fileInput("v1", original)]);
      const before = vault.bytes.byteLength;
      await vault.add([fileInput("v2", edited)]);
      added[chunker] = vault.bytes.byteLength - before;
    }
    expect(added["keyed"]).toBeLessThan(120_000);
    expect(added["reference"]).toBeGreaterThan(1_400_000);
  });

  test("the same tensors at other places in other files are found by their cuts", async () => {
    const tensors = [makeXorshift(21n, 500_000), makeXorshift(22n, 40_000), makeXorshift(23n, 300_000)];
    const layouts = [
      { header: makeXorshift(31n, 777), pad: 0 },
      { header: makeXorshift(32n, 9001), pad: 28 },
    ];
    const vault = await plainVault(profileSettings("fast"));
    const sizes: number[] = [];
    for (const [i, { header, pad }] of layouts.entries()) {
      const pieces: Bytes[] = [header];
      const extents: { offset: number; byteLength: number }[] = [];
      let offset = header.byteLength;
      for (const tensor of tensors) {
        extents.push({ offset, byteLength: tensor.byteLength });
        pieces.push(tensor, new Uint8Array(pad));
        offset += tensor.byteLength + pad;
      }
      const bytes = concatBytes(pieces);
      const input = fileInput(`model${i}`, bytes, {
        open: async () => ({
          source: memorySource(bytes),
          tensors: extents,
          checkUnchanged: async () => undefined,
          close: async () => undefined,
        }),
      });
      await vault.add([input]);
      sizes.push(vault.bytes.byteLength);
      expect((await contents(vault.bytes)).get(`model${i}`)).toBe(hex(bytes));
    }
    expect((sizes[1] as number) / (sizes[0] as number)).toBeLessThan(1.02);
  });

  async function storedBlocks(vault: TestVault): Promise<number> {
    const opened = await vault.open();
    const { size } = opened.manifest.chunks;
    await closeVault(opened);
    return size;
  }
});

describe("what a change keeps", () => {
  test("unknown keys, and unknown extensions with their payloads", async () => {
    const vault = await plainVault();
    const opened = await vault.open();
    const state = stateOf(opened);
    const row = { ...parityRow("x.later", { offset: 0, length: 0 }), algorithmId: "later" };
    const payload = makeXorshift(4n, 100);
    const draft = new MemoryDraft();
    const manifest = { ...state.manifest, extra: new Map([["later", '{"a":[1,2]}']]) };
    const extended = {
      ...state,
      manifest,
      extensions: [{ ...row, length: 100 }],
      sections: { ...state.sections, payload: { offset: 0, byteLength: 100 } },
      read: async (offset: number, length: number) => payload.slice(offset, offset + length),
    };
    const host = { engine, random: fixed, now: () => "2026-06-17T00:00:00Z" };
    await new VaultEdit({ state: extended, draft, cipher: opened.cipher, host, layout: "rewrite" }).seal();
    await closeVault(opened);
    vault.bytes = draft.committed as Bytes;
    await vault.add([fileInput("a", makeXorshift(1n, 30_000))]);
    await vault.mkdir("d");
    const after = await vault.open();
    expect(after.manifest.extra.get("later")).toBe('{"a":[1,2]}');
    expect(after.extensions).toEqual([{ ...row, offset: 0, length: 100, extra: NO_EXTRA_KEYS }]);
    const { extensionPayloadOffset } = after.header.values;
    expect(equalBytes(vault.bytes.slice(extensionPayloadOffset, extensionPayloadOffset + 100), payload)).toBe(true);
    await closeVault(after);
  });

  test("times and permissions, and a count of changes", async () => {
    const vault = await plainVault();
    await vault.add([fileInput("a", new Uint8Array(3), { mtime: "2020-02-02T02:02:02.5Z", mode: 0o640 })]);
    await vault.copy("a", "b");
    const opened = await vault.open();
    expect(opened.manifest.entries.records().map(({ mtime, mode }) => [mtime, mode])).toEqual([
      ["2020-02-02T02:02:02.5Z", 0o640],
      ["2020-02-02T02:02:02.5Z", 0o640],
    ]);
    expect(opened.manifest.generation).toBe(3);
    await closeVault(opened);
  });
});

describe("damage", () => {
  test("is never copied into a rewritten vault", async () => {
    const vault = await plainVault();
    await vault.add([fileInput("a", makeXorshift(1n, 30_000))]);
    vault.bytes[9000] = (vault.bytes[9000] as number) ^ 1;
    const rewriting = vault.edit(async () => undefined, undefined, "rewrite");
    await expect(rewriting).rejects.toMatchObject({ code: "integrity/aerovault.cipher-hash" });
  });

  test("is never made permanent by parity computed over it", async () => {
    const vault = new TestVault({ engine });
    await vault.create(SHORT, { parityPercent: 20 });
    await vault.add([fileInput("a", makeXorshift(1n, 30_000))]);
    const opened = await vault.open();
    expect(opened.extensions.map(({ extensionId }) => extensionId)).toContain(DATA_PARITY);
    const [record] = opened.manifest.chunks.values();
    const at = blockExtent(record as ChunkRecord).offset + 20;
    await closeVault(opened);
    vault.bytes[at] = (vault.bytes[at] as number) ^ 1;
    await expect(vault.mkdir("d")).rejects.toMatchObject({ code: "integrity/aerovault.cipher-hash" });
  });
});

test("a part of a change that is dropped leaves its entries and chunks, and costs what it changes", async () => {
  const vault = await plainVault();
  const files = Array.from({ length: 300 }, (_, i) => fileInput(`d/${i}`, makeXorshift(BigInt(i + 1), 300)));
  await vault.add([...files, fileInput("big", makeXorshift(9n, 300_000))]);
  const before = await contents(vault.bytes);
  await vault.edit(async (edit) => {
    const copies = vi.spyOn(Map.prototype, Symbol.iterator);
    const set = vi.spyOn(Map.prototype, "set");
    onTestFinished(() => {
      for (const spy of [copies, set]) spy.mockRestore();
    });
    for (let i = 0; i < 20; i++) {
      const savepoint = edit.savepoint();
      edit.tree.makeDirectory(`made/${i}`, edit.now);
      if (i % 2 === 0) savepoint.keep();
      else savepoint.restore();
    }
    expect([copies.mock.calls.length, set.mock.calls.length < 200]).toEqual([0, true]);
    for (const spy of [copies, set]) spy.mockRestore();
    const chunks = [...edit.chunks.keys()].sort();
    const savepoint = edit.savepoint();
    edit.tree.remove(["d", "big"], "recursive");
    expect([edit.dropUnreferenced() > 300_000, edit.chunks.size]).toEqual([true, 0]);
    savepoint.restore();
    expect([...edit.chunks.keys()].sort()).toEqual(chunks);
  });
  expect(await contents(vault.bytes)).toEqual(before);
});

test("two inputs with one path, and a file that changes, are errors that leave the vault as it was", async () => {
  const vault = await plainVault();
  const before = vault.bytes.slice();
  const twice = [fileInput("a", new Uint8Array(1)), fileInput("a", new Uint8Array(2))];
  await expect(vault.add(twice)).rejects.toMatchObject({ code: "usage/vault.merge" });
  const changing = fileInput("large", makeXorshift(1n, 300_000), {
    open: async () => ({
      source: memorySource(makeXorshift(1n, 300_000)),
      tensors: [],
      checkUnchanged: () => Promise.reject(new Error("changed")),
      close: async () => undefined,
    }),
  });
  await expect(vault.add([changing])).rejects.toThrow("changed");
  expect(equalBytes(vault.bytes, before)).toBe(true);
});

test("a stream of unknown length is small or large by its actual length", async () => {
  const vault = await plainVault();
  const large = makeXorshift(8n, 700_001);
  const pieces = async function* (bytes: Bytes): AsyncGenerator<Bytes> {
    for (let i = 0; i < bytes.byteLength; i += 65_537) yield bytes.subarray(i, i + 65_537);
  };
  const stream = { kind: "stream" as const, label: "standard input" };
  await vault.add([
    { ...stream, path: "large", pieces: () => pieces(large) },
    { ...stream, path: "small", pieces: () => pieces(large.subarray(0, 1000)) },
    { ...stream, path: "empty", pieces: () => pieces(new Uint8Array(0)) },
  ]);
  const opened = await vault.open();
  expect(opened.manifest.entries.records().map(({ path, packOffset }) => [path, packOffset])).toEqual([
    ["empty", 0],
    ["large", undefined],
    ["small", 0],
  ]);
  await closeVault(opened);
  const found = await contents(vault.bytes);
  expect([found.get("empty"), found.get("small")]).toEqual(["", hex(large.subarray(0, 1000))]);
  expect(found.get("large") === hex(large)).toBe(true);
});

test("a password has at least eight bytes, and is used exactly as typed", async () => {
  const vault = new TestVault({ engine });
  await expect(vault.create(SHORT, { password: "1234567" })).rejects.toMatchObject({ code: "usage/vault.password" });
  await vault.create(SHORT, { password: "€€€€" });
  await closeVault(await vault.open());
  const [composed, decomposed] = ["caf\u00e9 au lait", "cafe\u0301 au lait"];
  await vault.create(SHORT, { password: composed });
  const open = (password: string): Promise<VaultArchive> =>
    openAerovault(memorySource(vault.bytes), { engine, limits: {}, password: async () => encodeUtf8(password) });
  await expect(open(decomposed)).rejects.toMatchObject({ code: "usage/password.wrong" });
  await (await open(composed)).close();
});
