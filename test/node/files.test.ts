import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { afterEach, describe, expect, test, vi } from "vitest";
import { cache, correct, doctor, fileSink, fileSource, keygen } from "../../src/platform/node/index.ts";
import { nodeVerbs } from "../../src/platform/node/verbs/index.ts";
import { callTare } from "../cli/run-tare.ts";
import { smallSafetensors } from "../cli/small-models.ts";
import { startFileServer } from "../support/file-server.ts";
import { copyOf, documentOf, folderWith, noise, plain, snapshot } from "./same-as-command.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

/** A file with its sidecar, and one byte of it flipped. */
async function damagedFile() {
  const at = folderWith({ "m.bin": noise(300_000) });
  await correct.generate(at("m.bin"));
  const bytes = readFileSync(at("m.bin"));
  const sound = Buffer.from(bytes);
  bytes[777] = (bytes[777] ?? 0) ^ 1;
  writeFileSync(at("m.bin"), bytes);
  return { at, sound };
}

describe("correct", () => {
  test("generate() writes the command's sidecar and returns its document", async () => {
    const at = folderWith({ "m.bin": noise(300_000) });
    const from = copyOf(at);
    const document = await documentOf((to) => ["correct", "generate", to("m.bin"), "--parity", "25%"], {
      from,
      to: at,
    });
    expect(plain(await correct.generate(at("m.bin"), { parity: "25%" }))).toEqual(document);
    expect(readFileSync(at("m.bin.aerocorrect")).equals(readFileSync(from("m.bin.aerocorrect")))).toBe(true);
    await expect(correct.generate(at("m.bin"))).rejects.toMatchObject({ code: "usage/exists" });
    const forced = await correct.generate(at("m.bin"), { force: true, parity: "low" });
    expect(forced).toMatchObject({ parityPercent: 7, dryRun: false });
  });

  test("generate() into another place, as a plan, and for an empty file", async () => {
    const at = folderWith({ "m.bin": noise(1000), empty: "" });
    const before = snapshot(at);
    const options = { output: at("side"), dryRun: true };
    expect(await correct.generate(at("m.bin"), options)).toMatchObject({ sidecar: at("side"), dryRun: true });
    expect(snapshot(at)).toEqual(before);
    expect(await correct.generate(at("empty"))).toMatchObject({ byteLength: 0, longestBurst: 0 });
    await expect(correct.generate(at("m.bin"), { output: at("m.bin"), force: true })).rejects.toMatchObject({
      code: "usage/own-input",
    });
    await expect(correct.generate(at("m.bin"), { output: "s3://models/x" })).rejects.toMatchObject({
      code: "unsupported/scheme",
    });
  });

  test("verify() and repair() return the documents of their commands", async () => {
    const { at, sound } = await damagedFile();
    const from = copyOf(at);
    const both = { from, to: at };
    const verified = await documentOf((to) => ["correct", "verify", to("m.bin")], both);
    expect(plain(await correct.verify(at("m.bin")))).toEqual(verified);
    expect(verified).toMatchObject({ ok: false, state: "damaged" });
    const copied = await documentOf((to) => ["correct", "repair", to("m.bin"), "-o", to("healed")], both);
    expect(plain(await correct.repair(at("m.bin"), { output: at("healed") }))).toEqual(copied);
    expect(readFileSync(at("healed")).equals(sound)).toBe(true);
    const dry = await documentOf((to) => ["correct", "repair", to("m.bin"), "--dry-run"], both);
    expect(plain(await correct.repair(at("m.bin"), { dryRun: true }))).toEqual(dry);
    expect(readFileSync(at("m.bin")).equals(sound)).toBe(false);
    const healed = await documentOf((to) => ["correct", "repair", to("m.bin")], both);
    expect(plain(await correct.repair(at("m.bin")))).toEqual(healed);
    expect(readFileSync(at("m.bin")).equals(sound)).toBe(true);
    expect(await correct.verify(at("m.bin"))).toMatchObject({ ok: true, state: "intact", findings: [] });
  });

  test("an error of the command is the function's", async () => {
    const at = folderWith({ "m.bin": "x" });
    const document = await documentOf((to) => ["correct", "verify", to("m.bin")], { from: at, to: at });
    const error = await correct.verify(at("m.bin")).catch((thrown: unknown) => thrown);
    const { code, message, at: place } = plain(error) as Record<string, unknown>;
    expect({ code, message, at: place }).toEqual(
      Object.fromEntries(Object.entries(document as object).filter(([name]) => /^(code|message|at)$/.test(name))),
    );
  });

  test("repair() takes only the sidecar of the expected content, and leaves what it cannot heal", async () => {
    const { at, sound } = await damagedFile();
    const digest = Buffer.from(await crypto.subtle.digest("SHA-256", sound)).toString("hex");
    await expect(correct.repair(at("m.bin"), { expectSha256: "00".repeat(32) })).rejects.toMatchObject({
      code: "integrity/aerocorrect.anchor",
    });
    writeFileSync(at("other"), noise(300_000, 9));
    const before = snapshot(at);
    const sidecar = at("m.bin.aerocorrect");
    await expect(correct.repair(at("other"), { sidecar })).rejects.toMatchObject({
      code: "integrity/aerocorrect.lost",
    });
    expect(snapshot(at)).toEqual(before);
    expect(await correct.repair(at("m.bin"), { expectSha256: digest })).toMatchObject({ repaired: true });
  });

  test("damage of the sidecar alone is a note", async () => {
    const at = folderWith({ "m.bin": noise(300_000) });
    await correct.generate(at("m.bin"));
    const sidecar = readFileSync(at("m.bin.aerocorrect"));
    for (let at = 10_000; at < sidecar.length; at += 10_000) sidecar[at] = (sidecar[at] ?? 0) ^ 1;
    writeFileSync(at("m.bin.aerocorrect"), sidecar);
    const notes: string[] = [];
    const result = await correct.verify(at("m.bin"), { onNote: (note) => notes.push(note) });
    expect(result).toMatchObject({ ok: true, findings: [{ severity: "warning" }] });
    expect(notes).toHaveLength(result.findings.length);
  });

  test("progress begins at nothing and ends at everything", async () => {
    const at = folderWith({ "m.bin": noise(300_000) });
    const events: (readonly [string, number, number | null])[] = [];
    await correct.generate(at("m.bin"), {
      onProgress: ({ label, done, total }) => events.push([label, done, total]),
    });
    expect(events[0]).toEqual(["computing parity", 0, 300_000]);
    expect(events.at(-1)).toEqual(["computing parity", 300_000, 300_000]);
  });

  test("an abort in the middle of generate() leaves nothing", async () => {
    const at = folderWith({ "m.bin": noise(3_000_000) });
    const before = snapshot(at);
    const reason = new Error("enough");
    const control = new AbortController();
    const call = correct.generate(at("m.bin"), { signal: control.signal, onProgress: () => control.abort(reason) });
    await expect(call).rejects.toBe(reason);
    expect(snapshot(at)).toEqual(before);
  });
});

describe("keygen()", () => {
  test("makes a pair, and returns the document of the command", async () => {
    const at = folderWith();
    const from = copyOf(at);
    const dry = await documentOf((to) => ["keygen", "-o", to("release"), "--dry-run"], { from, to: at });
    expect(plain(await keygen(at("release"), { dryRun: true }))).toEqual(dry);
    expect(readdirSync(at())).toEqual([]);
    const document = await documentOf((to) => ["keygen", "-o", to("release")], { from, to: at });
    const result = await keygen(at("release"));
    expect(plain(result, "id")).toEqual(plain(document, "id"));
    expect(result.id).toMatch(/^[0-9a-f]+$/);
    expect(statSync(at("release.key")).mode & 0o777).toBe(0o600);
    expect(readFileSync(at("release.pub"), "utf8")).toContain("PUBLIC KEY");
    await expect(keygen(at("release"))).rejects.toMatchObject({ code: "usage/exists" });
    const replaced = await keygen(at("release"), { force: true });
    expect(replaced.id).not.toBe(result.id);
  });

  test("a link in the place of a key is replaced, not followed", async () => {
    const at = folderWith({ other: "mine" });
    symlinkSync(at("other"), at("k.key"));
    await keygen(at("k"), { force: true });
    expect(readFileSync(at("other"), "utf8")).toBe("mine");
  });
});

describe("cache", () => {
  test("every function returns the document of its command", async () => {
    const at = folderWith();
    const server = await startFileServer({ "m.safetensors": smallSafetensors() });
    const folder = at("cache");
    await nodeVerbs.inspect(`${server.url}m.safetensors`, { cache: folder });
    await server.close();
    const env = { TARE_CACHE: folder, TARE_CACHE_SIZE: "" };
    const documents = new Map<string, unknown>();
    for (const args of [
      ["list"],
      ["ls"],
      ["path"],
      ["verify", "--fix"],
      ["prune", "--max-size", "1B", "--dry-run"],
      ["prune"],
      ["clear", "--dry-run"],
    ])
      documents.set(args.join(" "), await documentOf(() => ["cache", ...args], { from: at, to: at }, { env }));
    vi.stubEnv("TARE_CACHE", folder);
    vi.stubEnv("TARE_CACHE_SIZE", "");
    expect(documents.get("list")).toEqual(documents.get("ls"));
    expect(plain(await cache.list())).toEqual(documents.get("list"));
    expect(plain(await cache.path())).toEqual(documents.get("path"));
    expect(plain(await cache.verify({ fix: true }))).toEqual(documents.get("verify --fix"));
    const pruned = await cache.prune({ maxSize: 1, dryRun: true });
    expect(plain(pruned)).toEqual(documents.get("prune --max-size 1B --dry-run"));
    expect(pruned.removed.entries).toBeGreaterThan(0);
    expect(plain(await cache.prune())).toEqual(documents.get("prune"));
    expect(plain(await cache.clear({ dryRun: true }))).toEqual(documents.get("clear --dry-run"));
    expect((await cache.list()).files).toHaveLength(1);
    expect((await cache.clear()).left).toEqual({ entries: 0, bytes: 0 });
    expect((await cache.list()).files).toEqual([]);
  });

  test("the long name has the flags and the refusals of the short one", async () => {
    expect(await callTare(["cache", "list", "--help"])).toMatchObject({ code: 0 });
    expect(await callTare(["correct", "generate", "--help"])).toMatchObject({
      code: 0,
      out: expect.stringContaining("also known as: correct generate"),
    });
    expect(await callTare(["cache", "list", "--fix"])).toMatchObject({ code: 2 });
    expect((await callTare(["cache", "lists"])).err).toContain("must be one of ls, verify, prune, clear, path");
  });

  test("a size of the environment that is none is refused", async () => {
    vi.stubEnv("TARE_CACHE_SIZE", "much");
    await expect(cache.list()).rejects.toMatchObject({ code: "usage/flag-value" });
  });
});

test("doctor() returns the document of the command", async () => {
  const document = await documentOf(() => ["doctor"], { from: folderWith(), to: folderWith() });
  const dropped = ["engine.primitives.bytesPerSecond"];
  expect(plain(await doctor(), ...dropped)).toEqual(plain(document, ...dropped));
});

test("fileSource() and fileSink() read and write a file", async () => {
  const at = folderWith({ "a.bin": "first" });
  const source = await fileSource(at("a.bin"));
  expect(Buffer.from(await source.read(1, 3)).toString()).toBe("irs");
  await source.close();
  await source.close();
  await expect(fileSink(at("a.bin"))).rejects.toMatchObject({ code: "usage/exists" });
  const sink = await fileSink(at("a.bin"), { force: true });
  await sink.append(new Uint8Array([65]));
  expect(readFileSync(at("a.bin"), "utf8")).toBe("first");
  await sink.commit();
  expect(readFileSync(at("a.bin"), "utf8")).toBe("A");
  await expect(fileSource(at("nothing"))).rejects.toMatchObject({ code: "source/not-found" });
});
