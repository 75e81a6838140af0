import { createHash } from "node:crypto";
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { encodeJournalHeader, encodeRecord } from "../../src/operations/pull/store.ts";
import { nativeEngine } from "../../src/platform/node/engine/native.ts";
import { aeroFile, folder, holds, noise, pullInto, serve, setOf, stateOf } from "./pull-into.ts";

const RECEIPT = ".tare-pull.json";
const LOCK = ".tare-pull.lock";
const RIGHT = noise(3000, 1);
const WRONG = noise(3000, 2);

const stampOf = (path: string): string => {
  const { size, mtimeNs } = statSync(path, { bigint: true });
  return `${size}:${mtimeNs}`;
};

/** A receipt as a stranger would write it: everything in it is true but the bytes. */
function forge(
  directory: string,
  files: Readonly<Record<string, { bytes: Bytes; facts: Record<string, unknown> }>>,
): void {
  const rows = Object.entries(files).map(([name, { bytes, facts }]) => {
    writeFileSync(join(directory, name), bytes);
    return [name, { byteLength: bytes.byteLength, stamp: stampOf(join(directory, name)), ...facts }];
  });
  writeFileSync(join(directory, RECEIPT), JSON.stringify({ version: 1, files: Object.fromEntries(rows) }));
}

describe("a folder that came from somebody else", () => {
  it("is hashed, whatever its receipt says", async () => {
    const part = aeroFile(RIGHT);
    const files = setOf({ "part-000.aero": part }, aeroFile(noise(400, 5)));
    const server = await serve(files);
    const to = folder();
    const sha256 = createHash("sha256").update(part).digest("hex");
    const wrong = aeroFile(WRONG);
    expect(wrong.byteLength).toBe(part.byteLength);
    forge(to, { "part-000.aero": { bytes: wrong, facts: { from: `${server.url}part-000.aero`, sha256, seal: "00" } } });
    await pullInto(to, { url: `${server.url}model.aeroset.json` });
    expect(holds(to, "part-000.aero", part)).toBe(true);
  });

  it("is fetched where only an ETag could say that it is current", async () => {
    const server = await serve({ "m.bin": RIGHT });
    const first = folder();
    await pullInto(first, { url: `${server.url}m.bin` });
    const honest = JSON.parse(readFileSync(join(first, RECEIPT), "utf8")).files["m.bin"];
    const to = folder();
    forge(to, { "m.bin": { bytes: WRONG, facts: { from: honest.from, etag: honest.etag, seal: honest.seal } } });
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", RIGHT)).toBe(true);
  });

  it("is not believed either where it is ours, went away and came back with other bytes", async () => {
    const server = await serve({ "m.bin": RIGHT });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    const path = join(to, "m.bin");
    const { atime, mtime } = statSync(path);
    writeFileSync(path, WRONG);
    utimesSync(path, atime, mtime);
    const receipt = JSON.parse(readFileSync(join(to, RECEIPT), "utf8"));
    receipt.files["m.bin"].stamp = stampOf(path);
    writeFileSync(join(to, RECEIPT), JSON.stringify(receipt));
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", RIGHT)).toBe(true);
  });

  it("sends no validator that a receipt made up", async () => {
    const server = await serve({ "m.bin": RIGHT });
    const to = folder();
    forge(to, { "m.bin": { bytes: WRONG, facts: { from: `${server.url}m.bin`, etag: '"x"\r\nX-Injected: yes' } } });
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", RIGHT)).toBe(true);
  });

  it("has a journal that nothing is taken from", async () => {
    const server = await serve({ "m.bin": RIGHT });
    const first = folder();
    await pullInto(first, { url: `${server.url}m.bin` });
    const { etag } = JSON.parse(readFileSync(join(first, RECEIPT), "utf8")).files["m.bin"];
    const to = folder();
    const engine = await nativeEngine({ missing: "use-portable" });
    const check = await engine.digest("blake3", WRONG);
    for (const identity of [`3000 etag ${etag}`, `3000 etag ${etag} undefined`]) {
      writeFileSync(join(to, "m.bin.tare-part"), WRONG);
      const journal = Buffer.concat([encodeJournalHeader(identity), encodeRecord(0, check)]);
      writeFileSync(join(to, "m.bin.tare-pull"), journal);
      await pullInto(to, { url: `${server.url}m.bin`, overwrite: "replace" });
      expect(holds(to, "m.bin", RIGHT)).toBe(true);
    }
  });

  it.each([
    ["process 1", "1\n"],
    ["a process of ours, without its seal", `${process.ppid}\n`],
    ["a seal that is none", `${process.ppid}\n${"0".repeat(64)}\n`],
    ["nonsense", "\0\0\0"],
  ])("is not locked by what it brought: %s", async (_, text) => {
    const server = await serve({ "m.bin": RIGHT });
    const to = folder();
    writeFileSync(join(to, LOCK), text);
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(readdirSync(to).sort()).toEqual([RECEIPT, "m.bin"]);
  });

  it("is told from a folder in the way, and a link is not followed", async () => {
    const server = await serve({ "m.bin": RIGHT });
    const [to, other] = [folder(), folder()];
    symlinkSync("/dev/zero", join(to, LOCK));
    await pullInto(to, { url: `${server.url}m.bin` });
    mkdirSync(join(other, LOCK));
    const blocked = pullInto(other, { url: `${server.url}m.bin` });
    await expect(blocked).rejects.toMatchObject({ code: "source/pull.entry" });
  });
});

it.each([
  ["the receipt", RECEIPT],
  ["the lock", LOCK],
  ["the unfinished file", "m.bin.tare-part"],
  ["its journal", "m.bin.tare-pull"],
  ["the file itself", "m.bin"],
])("a folder in the place of %s is named before anything is fetched", async (_, name) => {
  const server = await serve({ "m.bin": RIGHT });
  const to = folder();
  mkdirSync(join(to, name));
  writeFileSync(join(to, name, "mine"), "");
  const blocked = pullInto(to, { url: `${server.url}m.bin`, overwrite: "replace" });
  await expect(blocked).rejects.toMatchObject({
    code: "source/pull.entry",
    message: expect.stringContaining(join(to, name)),
    at: { source: join(to, name) },
    hint: "Remove it",
  });
  expect(readdirSync(join(to, name))).toEqual(["mine"]);
  const stored = readdirSync(to).map((file) => statSync(join(to, file)));
  expect(stored.filter((facts) => facts.isFile() && facts.size > 0)).toEqual([]);
});

describe("the secret that receipts are sealed with", () => {
  it("is for its owner alone, and nothing is believed where others can read it", async () => {
    const server = await serve({ "m.bin": RIGHT });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    const key = join(stateOf(to), "tare", "seal.key");
    expect(statSync(key).mode & 0o777).toBe(0o600);
    expect((await pullInto(to, { url: `${server.url}m.bin` })).files[0]?.fetchedBytes).toBe(0);
    writeFileSync(key, noise(32, 9));
    expect((await pullInto(to, { url: `${server.url}m.bin` })).files[0]?.fetchedBytes).toBe(RIGHT.byteLength);
  });
});

describe("a file that appears while a pull runs", () => {
  const LONG = noise(1 << 20, 3);
  const set = setOf({ "part-000.aero": aeroFile(RIGHT) }, aeroFile(noise(400, 5)));
  const url = (server: { readonly url: string }, name: string): string =>
    `${server.url}${name.endsWith(".bin") ? name : "model.aeroset.json"}`;

  it.each(["m.bin", "part-000.aero", "index.aero", "model.aeroset.json"])("is not replaced: %s", async (name) => {
    const server = await serve({ ...set, "m.bin": LONG });
    const to = folder();
    server.setFault(({ path }) => {
      // A set has been compared with the folder before the first of its files is asked for.
      const isUnderWay = path.endsWith(".aero") || existsSync(join(to, "m.bin.tare-part"));
      if (isUnderWay) writeFileSync(join(to, name), "precious");
      return undefined;
    });
    await expect(pullInto(to, { url: url(server, name) })).rejects.toMatchObject({ code: "usage/exists" });
    expect(readFileSync(join(to, name), "utf8")).toBe("precious");
    server.setFault(undefined);
    await pullInto(to, { url: url(server, name), overwrite: "replace" });
    expect(readFileSync(join(to, name), "utf8")).not.toBe("precious");
    expect(readdirSync(to).filter((one) => /tare-(part|pull)$/.test(one))).toEqual([]);
  });

  it("is not replaced in the place of a file of ours either", async () => {
    const server = await serve({ "m.bin": LONG });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.bin` });
    server.setFile("m.bin", noise(1 << 20, 4));
    server.setFault(() => {
      if (existsSync(join(to, "m.bin.tare-part"))) writeFileSync(join(to, "m.bin"), "precious");
      return undefined;
    });
    await expect(pullInto(to, { url: `${server.url}m.bin` })).rejects.toMatchObject({ code: "usage/exists" });
    expect(readFileSync(join(to, "m.bin"), "utf8")).toBe("precious");
  });

  it("is our own file where a pull died between its two names", async () => {
    const server = await serve({ "m.bin": LONG });
    const to = folder();
    let journal: Buffer | undefined;
    server.setFault(() => {
      if (existsSync(join(to, "m.bin.tare-pull"))) journal = readFileSync(join(to, "m.bin.tare-pull"));
      return undefined;
    });
    await pullInto(to, { url: `${server.url}m.bin` });
    linkSync(join(to, "m.bin"), join(to, "m.bin.tare-part"));
    writeFileSync(join(to, "m.bin.tare-pull"), journal ?? "");
    rmSync(join(to, RECEIPT));
    await pullInto(to, { url: `${server.url}m.bin` });
    expect(holds(to, "m.bin", LONG)).toBe(true);
    expect(readdirSync(to).sort()).toEqual([RECEIPT, "m.bin"]);
  });
});
