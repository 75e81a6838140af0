import { beforeAll, describe, expect, it } from "vitest";
import { FIXED_TIME, fileInput, MemoryDraft, rememberingKeys, TestVault } from "../../../test/builders/vault.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { VaultArchive } from "../../formats/aerovault/archive.ts";
import { decodeDirectory, type ExtensionRow, encodeDirectory } from "../../formats/aerovault/extensions/rows.ts";
import { readSlots, slotRow } from "../../formats/aerovault/extensions/slots.ts";
import { headerMac } from "../../formats/aerovault/keys.ts";
import { vaultHeader, withMac } from "../../formats/aerovault/layout.ts";
import { openVault } from "../../formats/aerovault/open.ts";
import { closeVault, type Vault } from "../../formats/aerovault/vault.ts";
import { type NewKeys, VaultEdit } from "../../formats/aerovault/write/edit.ts";
import { stateOf } from "../../formats/aerovault/write/state.ts";
import type { ArchiveKey } from "../../model/archive.ts";
import { nativeEngine } from "../../platform/node/engine/native.ts";
import { secureRandom } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import { addKey, type NewKey, removeKey, slotKeys, withoutSlots } from "./keys.ts";

const PASSWORD = "the first password";
const SECOND = "another password";
const KEY = "a key file of random bytes";
const RECOVERY = "0123456789ABCDEFGHJKMNPQRSTV";
const SHORT = { level: 3, bounds: { min: 4096, avg: 8192, max: 65_536 } };
const engine = rememberingKeys(await nativeEngine());

interface Given {
  readonly password?: string;
  readonly keyFile?: string;
  readonly engine?: Engine;
}

function contextOf({ password, keyFile, engine: own = engine }: Given) {
  const source = (text: string | undefined) => (text === undefined ? undefined : async () => encodeUtf8(text));
  return { engine: own, limits: {}, password: source(password), keyFile: source(keyFile) };
}

/** "opens", or the code of the error. */
async function opening(bytes: Bytes, given: Given): Promise<string> {
  try {
    await closeVault(await openVault(memorySource(bytes, "vault"), contextOf(given)));
    return "opens";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

async function opened<T>(bytes: Bytes, use: (vault: Vault) => T | Promise<T>): Promise<T> {
  const vault = await openVault(memorySource(bytes, "vault"), contextOf({ password: PASSWORD }));
  try {
    return await use(vault);
  } finally {
    await closeVault(vault);
  }
}

const keysOf = (bytes: Bytes): Promise<readonly ArchiveKey[]> => opened(bytes, (vault) => new VaultArchive(vault).keys);
const warningsOf = (bytes: Bytes): Promise<readonly string[]> =>
  opened(bytes, ({ warnings }) => warnings.map(({ code }) => code));

async function makeVault(parityPercent?: number): Promise<TestVault> {
  const vault = new TestVault({ engine });
  await vault.create(SHORT, { password: PASSWORD, ...(parityPercent === undefined ? {} : { parityPercent }) });
  await vault.add([fileInput("a.txt", encodeUtf8("some text"))]);
  return vault;
}

async function add(vault: TestVault, kind: NewKey["kind"], secret: string, label?: string): Promise<string> {
  const context = { engine, random: secureRandom, now: FIXED_TIME };
  let id = "";
  await vault.edit(
    async () => undefined,
    async (of) => {
      const { key, ring } = await addKey(of, { kind, secret: encodeUtf8(secret), label }, context);
      id = key.id;
      return ring;
    },
  );
  return id;
}

function remove(vault: TestVault, named: string): Promise<void> {
  return vault.edit(
    async () => undefined,
    async (of) => removeKey(of, named).ring,
  );
}

/** The next state of the vault, with these keys. */
function resealed(bytes: Bytes, ring: NewKeys = {}): Promise<Bytes> {
  return opened(bytes, async (of) => {
    const draft = new MemoryDraft(bytes);
    const host = { engine, random: secureRandom, now: () => FIXED_TIME };
    const edit = new VaultEdit({ state: stateOf(of), draft, cipher: of.cipher, host, layout: "update" });
    await edit.seal(ring);
    return draft.committed as Bytes;
  });
}

/** As programs leave it that know nothing of the list. */
const NO_LIST: NewKeys = { extra: new Map() };

/** The same file with other bytes in the place of its directory, which nothing authenticates. */
async function withDirectory(bytes: Bytes, directory: Bytes): Promise<Bytes> {
  const header = vaultHeader.decode(bytes.subarray(0, 1024), { source: "vault", offset: 0 });
  const { extensionDirectoryOffset: offset, extensionDirectoryLength } = header;
  if (directory.byteLength !== extensionDirectoryLength) {
    const copy = new Uint8Array(offset + directory.byteLength);
    copy.set(bytes.subarray(0, offset));
    copy.set(directory, offset);
    const changed = vaultHeader.encode({
      ...header,
      extensionDirectoryLength: directory.byteLength,
      extensionPayloadOffset: offset + directory.byteLength,
    });
    const mac = await opened(bytes, ({ keys }) => headerMac(engine, keys.mac, changed));
    copy.set(withMac(changed, mac));
    return copy;
  }
  const copy = bytes.slice();
  copy.set(directory, offset);
  return copy;
}

function rowsOf(bytes: Bytes): readonly ExtensionRow[] {
  const { extensionDirectoryOffset: start, extensionDirectoryLength: length } = vaultHeader.decode(
    bytes.subarray(0, 1024),
    { source: "vault", offset: 0 },
  );
  const at = { source: "vault", offset: start };
  return decodeDirectory(bytes.subarray(start, start + length), at, { payloadLength: 1e9, maxRows: 4096 });
}

let full: TestVault;
let ids: readonly string[];

beforeAll(async () => {
  full = await makeVault();
  ids = [
    await add(full, "password", SECOND, "night shift"),
    await add(full, "key-file", KEY, "build machine"),
    await add(full, "recovery", RECOVERY, "paper"),
  ];
});

describe("several keys", () => {
  it("open the vault, each of them", async () => {
    expect(await opening(full.bytes, { password: PASSWORD })).toBe("opens");
    expect(await opening(full.bytes, { password: SECOND })).toBe("opens");
    expect(await opening(full.bytes, { keyFile: KEY })).toBe("opens");
    expect(await opening(full.bytes, { keyFile: `${KEY}\n` })).toBe("opens");
    expect(await opening(full.bytes, { password: "0123-4567-89ab-cdef-ghjk-mnpq-rstv" })).toBe("opens");
    expect(await opening(full.bytes, { password: "wrong password" })).toBe("usage/password.wrong");
    expect(await opening(full.bytes, { keyFile: "another key file" })).toBe("usage/password.wrong");
    expect(await opening(full.bytes, { keyFile: "too short" })).toBe("usage/vault.key-file");
    expect(await opening(full.bytes, { keyFile: "another key file", password: SECOND })).toBe("opens");
    expect(await opening(full.bytes, {})).toBe("usage/password.missing");
  });

  it("are named, with labels that are not in clear", async () => {
    expect(await keysOf(full.bytes)).toEqual([
      { id: "header", label: null, kind: "password", created: null },
      { id: ids[0], label: "night shift", kind: "password", created: FIXED_TIME },
      { id: ids[1], label: "build machine", kind: "key-file", created: FIXED_TIME },
      { id: ids[2], label: "paper", kind: "recovery", created: FIXED_TIME },
    ]);
    expect(new TextDecoder("latin1").decode(full.bytes)).not.toContain("night shift");
    expect(await warningsOf(full.bytes)).toEqual([]);
  });

  it("cost a wrong password two Argon2id at most, and a key none", async () => {
    let count = 0;
    const counting: Engine = new Proxy(engine, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (name !== "argon2id") return typeof value === "function" ? value.bind(target) : value;
        return (...given: Parameters<Engine["argon2id"]>) => {
          count++;
          return target.argon2id(...given);
        };
      },
    });
    const costOf = async (bytes: Bytes, given: Given): Promise<number> => {
      count = 0;
      await opening(bytes, { ...given, engine: counting });
      return count;
    };
    expect(await costOf(full.bytes, { password: "wrong password" })).toBe(1); // the slots have the header's salt
    expect(await costOf(full.bytes, { password: RECOVERY })).toBe(0);
    expect(await costOf(full.bytes, { keyFile: KEY })).toBe(0);
    const changed = await makeVault();
    for (const label of ["a", "b", "c"]) await add(changed, "password", SECOND, label);
    await changed.passwd("the changed password");
    await add(changed, "password", "yet another one");
    const salts = new Set(readSlots(rowsOf(changed.bytes)).map(({ salt }) => salt.join()));
    expect(salts.size).toBe(1);
    expect(await costOf(changed.bytes, { password: "wrong password" })).toBe(2);
    expect(await opening(changed.bytes, { password: "yet another one" })).toBe("opens");
    expect(await opening(changed.bytes, { password: SECOND })).toBe("opens");
    expect(await opening(changed.bytes, { password: PASSWORD })).toBe("usage/password.wrong");
    const forged = rowsOf(changed.bytes).map((row, i) => {
      const [slot] = readSlots([row]);
      return slot === undefined ? row : slotRow({ ...slot, salt: new Uint8Array(32).fill(i) });
    });
    const directory = encodeDirectory(forged);
    const offset = changed.bytes.byteLength - directory.byteLength;
    const bytes = changed.bytes.slice();
    bytes.set(directory, offset);
    expect(await costOf(bytes, { password: "wrong password" })).toBe(2);
  });

  it("are not more than sixteen, and have labels of their own", async () => {
    const vault = await makeVault();
    for (let i = 0; i < 16; i++) await add(vault, "key-file", `${KEY} ${i}`, `key ${i}`);
    await expect(add(vault, "key-file", KEY)).rejects.toMatchObject({ code: "limit/aerovault.keys" });
    expect(await opening(vault.bytes, { keyFile: `${KEY} 15` })).toBe("opens");
    await remove(vault, "key 3");
    for (const label of ["key 4", "header", "0a1b2c3d", " x", "a\nb", "", "x".repeat(101), "\ud800"]) {
      await expect(add(vault, "key-file", KEY, label)).rejects.toMatchObject({ code: "usage/vault.key" });
    }
    expect(await opening(vault.bytes, { keyFile: `${KEY} 3` })).toBe("usage/password.wrong");
  });

  it("leave vaults without them as they were", async () => {
    const vault = await makeVault();
    await vault.mkdir("made");
    await opened(vault.bytes, ({ manifest, extensions }) => {
      expect(manifest.extra.has("keys")).toBe(false);
      expect(extensions).toEqual([]);
    });
  });

  it("end with new keys, and cannot be put back", async () => {
    const ended = await opened(full.bytes, (vault) => {
      expect(slotKeys(vault).map(({ label }) => label)).toEqual(["night shift", "build machine", "paper"]);
      const state = withoutSlots(stateOf(vault));
      expect(state.extensions).toEqual([]);
      return state.manifest.extra.get("keys");
    });
    expect(ended).toBe("[]");
  });
});

describe("removed and forged slots", () => {
  it("a removed slot opens nothing, also where somebody puts it back", async () => {
    const { bytes } = full;
    const before = rowsOf(bytes);
    const removed = await opened(bytes, (of) => removeKey(of, "night shift"));
    expect(removed.key.id).toBe(ids[0]);
    const without = await resealed(bytes, removed.ring);
    expect(await opening(without, { password: SECOND })).toBe("usage/password.wrong");
    const back = await withDirectory(without, encodeDirectory(before));
    expect(await opening(back, { password: SECOND })).toBe("key/slot.removed");
    expect(await opening(back, { keyFile: KEY })).toBe("opens");
    expect(await warningsOf(back)).toEqual(["integrity/aerovault.slot-unlisted"]);
    expect((await keysOf(back)).at(-1)).toEqual({
      id: ids[0],
      label: null,
      kind: "password",
      created: null,
      state: "unlisted",
    });
    expect(await opened(back, (of) => removeKey(of, ids[0] as string).keys.length)).toBe(3);
  });

  it("a slot that was taken is a warning, and taken off the list by its label", async () => {
    const [first, ...rest] = rowsOf(full.bytes);
    const cut = { ...(first as ExtensionRow), algorithmId: "tare-key-slot-1:AQ" };
    for (const rows of [rest, [cut, ...rest]]) {
      const bytes = await withDirectory(full.bytes, encodeDirectory(rows));
      expect(await warningsOf(bytes)).toEqual(["integrity/aerovault.slot-gone"]);
      expect((await keysOf(bytes))[1]).toMatchObject({ label: "night shift", state: "gone" });
      expect(await opening(bytes, { password: SECOND })).toBe("usage/password.wrong");
      expect(await opening(bytes, { password: RECOVERY })).toBe("opens");
      const { ring, keys } = await opened(bytes, (of) => removeKey(of, "night shift"));
      expect(keys).toHaveLength(3);
      expect(ring.rows).toHaveLength(2);
    }
  });

  it("two rows of one id are refused", async () => {
    const rows = rowsOf(full.bytes);
    const bytes = await withDirectory(full.bytes, encodeDirectory([...rows, rows[0] as ExtensionRow]));
    expect(await opening(bytes, { password: PASSWORD })).toBe("format/aerovault.extension");
  });

  it("a thousand forged slots before ours cost nothing, and new keys come before them", async () => {
    const [own] = readSlots(rowsOf(full.bytes));
    if (own === undefined) throw new Error("no slot");
    const forged = Array.from({ length: 1000 }, (_, i) =>
      slotRow({ ...own, id: (i + 0xf0000000).toString(16), salt: secureRandom(32) }),
    );
    const bytes = await withDirectory(full.bytes, encodeDirectory([...forged, ...rowsOf(full.bytes)]));
    expect(await opening(bytes, { password: PASSWORD })).toBe("opens");
    expect(await opening(bytes, { password: SECOND })).toBe("usage/password.wrong"); // the first sixteen alone count
    const context = { engine, random: secureRandom, now: FIXED_TIME };
    const fresh = { kind: "password", secret: encodeUtf8("the third password") } as const;
    const { ring } = await opened(bytes, (of) => addKey(of, fresh, context));
    const after = await resealed(bytes, ring);
    for (const password of [PASSWORD, SECOND, "the third password"])
      expect(await opening(after, { password })).toBe("opens");
    expect(rowsOf(after)).toHaveLength(1004);
  });

  it("a slot of other keys opens nothing, and says that one of the two is damaged", async () => {
    const other = await makeVault();
    await add(other, "key-file", "a key of another vault");
    const bytes = await withDirectory(full.bytes, encodeDirectory([...rowsOf(full.bytes), ...rowsOf(other.bytes)]));
    expect(await opening(bytes, { keyFile: "a key of another vault" })).toBe("integrity/aerovault.header");
    expect(await opening(bytes, { keyFile: "a key of another vault", password: SECOND })).toBe("opens");
  });
});

describe("a write of another program", () => {
  it("drops the list: every slot opens still, and the next change lists them again", async () => {
    const bytes = await resealed(full.bytes, NO_LIST);
    for (const given of [{ password: SECOND }, { keyFile: KEY }, { password: RECOVERY }]) {
      expect(await opening(bytes, given)).toBe("opens");
    }
    const kinds = (keys: readonly ArchiveKey[]): unknown => keys.map(({ kind, label }) => [kind, label]);
    const shown = [
      ["password", null],
      ["password", null],
      ["key", null],
      ["key", null],
    ];
    expect(kinds(await keysOf(bytes))).toEqual(shown);
    const after = await resealed(bytes);
    expect(kinds(await keysOf(after))).toEqual(shown);
    await opened(after, ({ manifest }) => expect(manifest.extra.get("keys")).toContain(`"id":"${ids[0]}"`));
  });

  it("that also took the slots leaves no empty list in the next change", async () => {
    const bytes = await resealed(full.bytes, { ...NO_LIST, rows: [] });
    const after = await resealed(bytes);
    await opened(after, ({ manifest }) => expect(manifest.extra.has("keys")).toBe(false));
  });

  it("uses the name of the list for something else: that is kept", async () => {
    const vault = await makeVault();
    const bytes = await resealed(vault.bytes, { extra: new Map([["keys", '{"its":"own"}']]) });
    const after = await resealed(bytes);
    await opened(after, ({ manifest }) => expect(manifest.extra.get("keys")).toBe('{"its":"own"}'));
  });
});
