import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { encodeUtf8 } from "../../../base/text.ts";
import { longestJournal, type PullStore } from "../../../operations/pull/store.ts";
import { openPullStore } from "./store.ts";

async function openStore(): Promise<{ readonly store: PullStore; readonly folder: string }> {
  const root = mkdtempSync(join(tmpdir(), "tare-pull-store-"));
  const folder = join(root, "to");
  const store = await openPullStore(folder, { environment: { XDG_STATE_HOME: join(root, "state") } });
  onTestFinished(async () => {
    await store.close();
    rmSync(root, { recursive: true });
  });
  return { store, folder };
}

test("a receipt that cannot be saved leaves no file and does not stop a later one", async () => {
  const { store, folder } = await openStore();
  const before = readdirSync(folder);
  const inTheWay = join(folder, ".tare-pull.json");
  mkdirSync(inTheWay);
  const failed = [store.keepReceipt(encodeUtf8("one")), store.keepReceipt(encodeUtf8("two"))];
  for (const receipt of failed) await expect(receipt).rejects.toMatchObject({ name: "SourceError" });
  rmdirSync(inTheWay);
  expect(readdirSync(folder)).toEqual(before);
  await store.keepReceipt(encodeUtf8("three"));
  expect(await store.readReceipt()).toEqual(encodeUtf8("three"));
});

test("a receipt replaces a link and a write-protected file, and leaves no other file", async () => {
  const { store, folder } = await openStore();
  const receipt = join(folder, ".tare-pull.json");
  const victim = join(folder, "victim");
  writeFileSync(victim, "precious");
  symlinkSync(victim, receipt);
  await store.keepReceipt(encodeUtf8("one"));
  chmodSync(receipt, 0o444);
  await store.keepReceipt(encodeUtf8("two"));
  expect([readFileSync(victim, "utf8"), readFileSync(receipt, "utf8")]).toEqual(["precious", "two"]);
  expect(readdirSync(folder).filter((name) => name.includes(".tare-partial-"))).toEqual([]);
});

test.skipIf(process.platform === "win32")(
  "a pipe in the place of the receipt is reported before anything is fetched",
  async () => {
    const { store, folder } = await openStore();
    execFileSync("mkfifo", [join(folder, ".tare-pull.json")]);
    await expect(store.readReceipt()).rejects.toMatchObject({ code: "source/pull.entry" });
  },
);

test.skipIf(process.platform !== "linux")("a file whose journal cannot be opened is closed again", async () => {
  const { store, folder } = await openStore();
  mkdirSync(join(folder, "m.bin.tare-pull"));
  await expect(store.openPartial("m.bin", "nothing")).rejects.toMatchObject({ code: "source/pull.entry" });
  const open = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ""; // the descriptor that the listing itself used
    }
  });
  expect(open.filter((path) => path.startsWith(folder) && path.endsWith(".tare-part"))).toEqual([]);
});

test.runIf(process.geteuid?.() === 0).each(["tare-part", "tare-pull"])(
  "a file of another user called NAME.%s is not gone on with, because its owner could change it later",
  async (suffix) => {
    const { store, folder } = await openStore();
    const planted = join(folder, `m.bin.${suffix}`);
    writeFileSync(planted, "theirs");
    chownSync(planted, 65534, 65534);
    await expect(store.openPartial("m.bin", "nothing")).rejects.toMatchObject({
      code: "source/pull.entry",
      message: expect.stringContaining("belongs to another user"),
    });
    expect(readFileSync(planted, "utf8")).toBe("theirs");
    // Root goes on with what is to replace a file of that user.
    writeFileSync(join(folder, "m.bin"), "old");
    chownSync(join(folder, "m.bin"), 65534, 65534);
    await (await store.openPartial("m.bin", "anything")).close();
  },
);

test.each(["tare-part", "tare-pull"])("a hard link called NAME.%s is not written through", async (suffix) => {
  const { store, folder } = await openStore();
  const victim = join(folder, "victim");
  writeFileSync(victim, "precious");
  linkSync(victim, join(folder, `m.bin.${suffix}`));
  await expect(store.openPartial("m.bin", "nothing")).rejects.toMatchObject({ code: "source/pull.entry" });
  expect(readFileSync(victim, "utf8")).toBe("precious");
  rmSync(join(folder, `m.bin.${suffix}`));
  await (await store.openPartial("m.bin", "nothing")).close();
});

test("a folder below that holds nothing at the end is taken away again; one that was there stays", async () => {
  const { store, folder } = await openStore();
  mkdirSync(join(folder, "old"));
  for (const path of ["new/a/m.bin", "new/b/m.bin", "old/m.bin"]) {
    await (await store.openPartial(path, "nothing")).discard();
  }
  const kept = await store.openPartial("kept/a/m.bin", "nothing");
  await kept.write(0, encodeUtf8("bytes"));
  await kept.close();
  await store.close();
  expect(readdirSync(folder).sort()).toEqual(["kept", "old"]);
});

test("of a journal no more is read than its file can need, however long it is", async () => {
  const { store, folder } = await openStore();
  writeFileSync(join(folder, "m.bin.tare-pull"), "journal");
  truncateSync(join(folder, "m.bin.tare-pull"), 2 ** 40);
  const partial = await store.openPartial("m.bin", "nothing");
  const content = await partial.readJournal(longestJournal(3));
  expect(content.byteLength).toBe(4096 + 2 * 3 * 24);
  expect(Buffer.from(content.subarray(0, 7)).toString()).toBe("journal");
  await partial.discard();
});
