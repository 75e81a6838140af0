import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { dirname } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { nativeEngine } from "../../src/platform/node/engine/native.ts";
import { placeMark } from "../../src/platform/node/files/partial-files.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { rememberingKeys } from "../builders/vault.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { type Craft2Options, type Crafted2File, craftVault2 } from "../builders/vault2.ts";
import { xorshiftBytes } from "../vectors/xorshift.ts";
import { callTare, type Run, scratch } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

const GGUF = smallGguf();
const NOISE = xorshiftBytes(300_000, 9n);
const cut = (bytes: Bytes, size: number): Bytes[] =>
  Array.from({ length: Math.ceil(bytes.byteLength / size) }, (_, i) => bytes.slice(i * size, (i + 1) * size));

const FILES: readonly Crafted2File[] = [
  { path: "models", type: "directory" },
  { path: "models/a.gguf", chunks: cut(GGUF, 4096) },
  { path: "models/same.txt", chunks: [encodeUtf8("inner\n")] },
  { path: "same.txt", chunks: [encodeUtf8("outer\n")], binding: "unbound" },
  { path: "noise.bin", chunks: cut(NOISE, 65_536) },
  { path: "empty", chunks: [] },
];

/** With the real key derivation, as the program has it, which costs a second and is done once. */
async function version2(options: Craft2Options = {}, files = FILES): Promise<Bytes> {
  return craftVault2(files, { engine: rememberingKeys(await nativeEngine()), chunkSize: 65_536, ...options });
}

function version1(): Promise<Bytes> {
  return craftVault1([
    { path: "models/a.gguf", bytes: GGUF },
    { path: "noise.bin", bytes: NOISE, compress: "stored", version: 1 },
    { path: "dated.txt", bytes: encodeUtf8("x"), central: { date: (44 << 9) | (2 << 5) | 29, time: 13 << 11 } },
  ]);
}

type Place = ReturnType<typeof scratch>;

function run(file: Place, args: readonly string[], password = VAULT_PASSWORD): Promise<Run> {
  const env = { XDG_STATE_HOME: file("state") };
  return callTare([...args, "--password-file", file(`pw-${password.length}`, password)], { env });
}

async function answer(file: Place, args: readonly string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await run(file, [...args, "--json"]);
  expect(code, err).toBe(0);
  return JSON.parse(out) as Record<string, unknown>;
}

describe("older vaults on the command line", () => {
  it("version 2: ls, info, cat, a model inside, verify, extract into directories with times", async () => {
    const file = scratch();
    const vault = file("v.aerovault", await version2({ layers: "two" }));
    expect(await answer(file, ["vault", "ls", vault])).toMatchObject({ format: "aerovault2" });
    expect(await answer(file, ["vault", "info", vault])).toMatchObject({
      version: "2",
      fileCount: 5,
      directoryCount: 1,
    });
    expect(await answer(file, ["inspect", `${vault}::models/a.gguf`])).toMatchObject({ format: "gguf" });
    expect((await run(file, ["vault", "cat", vault, "models/same.txt"])).out).toBe("inner\n");
    expect(await answer(file, ["vault", "scrub", vault])).toMatchObject({ ok: true });
    expect((await run(file, ["vault", "extract", vault, "-o", file("out")])).code).toBe(0);
    expect(readFileSync(file("out/models/same.txt"), "utf8")).toBe("inner\n");
    expect(readFileSync(file("out/same.txt"), "utf8")).toBe("outer\n");
    expect(Buffer.compare(readFileSync(file("out/noise.bin")), NOISE)).toBe(0);
    expect(statSync(file("out/noise.bin")).mtimeMs).toBe(Date.UTC(2023, 10, 14, 22, 30));
    expect(statSync(file("out/empty")).size).toBe(0);
    expect((await run(file, ["vault", "ls", vault], "not the password")).code).toBe(11);
  });

  it("version 1: lists without a password, reads and extracts with one", async () => {
    const file = scratch();
    const vault = file("v.aerovault", await version1());
    const listed = await callTare(["ls", vault, "--json"]);
    expect(JSON.parse(listed.out).entries.map(({ path }: { path: string }) => path)).toEqual([
      "models/a.gguf",
      "noise.bin",
      "dated.txt",
    ]);
    expect((await callTare(["vault", "cat", vault, "noise.bin"])).code).toBe(11);
    expect((await run(file, ["extract", vault, "-o", file("bad")], "not the password")).code).toBe(11);
    expect(existsSync(file("bad/noise.bin"))).toBe(false);
    expect(await answer(file, ["inspect", `${vault}::models/a.gguf`])).toMatchObject({ format: "gguf" });
    expect((await run(file, ["extract", vault, "-o", file("out")])).code).toBe(0);
    expect(Buffer.compare(readFileSync(file("out/noise.bin")), NOISE)).toBe(0);
    expect((await callTare(["inspect", vault])).out).toMatch(/AeroVault v1, /);
  });

  it("every command that would change one is refused, with the way to upgrade, and changes nothing", async () => {
    const file = scratch();
    for (const bytes of [await version1(), await version2()]) {
      const vault = file("v.aerovault", bytes);
      const verbs = [
        ["mkdir", vault, "x"],
        ["add", vault, vault],
        ["rm", vault, "noise.bin"],
        ["mv", vault, "noise.bin", "y"],
        ["cp", vault, "noise.bin", "y"],
        ["compact", vault],
      ];
      for (const verb of verbs) {
        const refused = await run(file, ["vault", ...verb]);
        expect(refused, verb[0]).toMatchObject({ code: 6 });
        expect(refused.err).toContain("tare upgrade OLD NEW");
      }
      expect(Buffer.compare(readFileSync(vault), bytes)).toBe(0);
    }
  });

  it("a file that cannot be trusted leaves nothing, and no link inside the output is followed", async () => {
    const file = scratch();
    const damage = (data: Bytes): Bytes => data.map((byte, i) => (i === data.byteLength - 40 ? byte ^ 1 : byte));
    const vault = file("v.aerovault", await version2({ data: damage }));
    const failed = await run(file, ["vault", "extract", vault, "-o", file("out")]);
    expect(failed.code).toBe(5);
    expect(readdirSync(file("out")).filter((name) => name.includes("noise") || name.startsWith("."))).toEqual([]);
    const good = file("good.aerovault", await version2());
    mkdirSync(file("linked"));
    mkdirSync(file("victim"));
    symlinkSync(file("victim"), file("linked/models"));
    expect((await run(file, ["vault", "extract", good, "-o", file("linked")])).err).toContain("source/vault.link");
    expect(readdirSync(file("victim"))).toEqual([]);
    expect((await run(file, ["vault", "extract", good, "same.txt", "-o", file("out")])).code).toBe(2);
  });
});

describe("tare upgrade of older vaults", () => {
  it.each([1, 2])("version %i: the same files, directories and times, compared before NEW appears", async (version) => {
    const file = scratch();
    const bytes = version === 1 ? await version1() : await version2();
    const old = file("old.aerovault", bytes);
    const fresh = file("new.aerovault");
    const result = await answer(file, ["upgrade", old, fresh]);
    const schema = JSON.parse(readFileSync(new URL("../../schemas/upgrade.schema.json", import.meta.url), "utf8"));
    expect(new Ajv2020().validate(schema, result)).toBe(true);
    expect(Buffer.compare(readFileSync(old), bytes)).toBe(0);
    expect(await answer(file, ["inspect", fresh])).toMatchObject({ format: "aerovault", version: "3" });
    expect(await answer(file, ["vault", "diff", old, fresh])).toMatchObject({ removed: [], changed: [] });
    const { entries } = (await answer(file, ["vault", "ls", fresh])) as {
      entries: { path: string; modified?: string }[];
    };
    const dated = entries.find(({ path }) => path === (version === 1 ? "dated.txt" : "noise.bin"));
    expect(dated?.modified).toContain(version === 1 ? "2024-02-29T13:00:00" : "2023-11-14T22:30:00");
    expect((await run(file, ["vault", "mkdir", fresh, "x"])).code).toBe(0);
    expect(await run(file, ["upgrade", old, fresh])).toMatchObject({ code: 2 });
    expect((await run(file, ["upgrade", fresh, file("newer.aerovault")])).err).toContain("usage/upgrade.current");
  });

  it("leaves no new vault where the old one is damaged, locked, or has names that version 3 does not store", async () => {
    const file = scratch();
    const fresh = file("sub/new.aerovault");
    mkdirSync(dirname(fresh));
    const damage = (data: Bytes): Bytes => data.map((byte, i) => (i === data.byteLength - 40 ? byte ^ 1 : byte));
    expect((await run(file, ["upgrade", file("a", await version2({ data: damage })), fresh])).code).toBe(5);
    expect((await run(file, ["upgrade", file("b", await version2()), fresh], "not the password")).code).toBe(11);
    expect((await run(file, ["upgrade", file("c", await version1()), fresh], "not the password")).code).toBe(11);
    const odd = await version2({}, [{ path: " x", chunks: [encodeUtf8("x")] }]);
    expect((await run(file, ["upgrade", file("d", odd), fresh])).err).toContain("usage/vault.path");
    expect(readdirSync(dirname(fresh))).toEqual([]);
  });

  it("never replaces the old vault, whatever it is called, and writes to disk alone", async () => {
    const file = scratch();
    const bytes = await version1();
    const old = file("old.aerovault", bytes);
    symlinkSync(old, file("link"));
    for (const path of [old, file("link"), "-"]) {
      expect(await run(file, ["upgrade", old, path, "--force"]), path).toMatchObject({ code: 2, out: "" });
    }
    expect(Buffer.compare(readFileSync(old), bytes)).toBe(0);
  });

  it("puts away what an upgrade that was killed has left", async () => {
    const file = scratch();
    const left = file(`.new.aerovault.tare-partial-4194303-${placeMark()}6789ab`, "half a vault");
    expect((await run(file, ["upgrade", file("old", await version1()), file("new.aerovault")])).code).toBe(0);
    expect(existsSync(left)).toBe(false);
  });

  it("asks for a longer password where the old one is too short, and takes another one", async () => {
    const file = scratch();
    const old = file(
      "old.aerovault",
      await version2({ password: "short" }, [{ path: "a", chunks: [encodeUtf8("x")] }]),
    );
    expect((await run(file, ["upgrade", old, file("new.aerovault")], "short")).err).toContain("usage/vault.password");
    const another = ["--new-password-file", file("another", "a longer one")];
    expect((await run(file, ["upgrade", old, file("new.aerovault"), ...another], "short")).code).toBe(0);
    expect((await run(file, ["vault", "cat", file("new.aerovault"), "a"], "a longer one")).out).toBe("x");
    expect((await run(file, ["upgrade", old, file("n"), "--wrap"], "short")).code).toBe(2);
    expect((await run(file, ["upgrade", old, file("n"), "--dry-run"], "short")).code).toBe(2);
    expect((await run(file, ["upgrade", old, file("n"), "--dry-run", ...another], "short")).out).toContain(
      "would write",
    );
    expect(existsSync(file("n"))).toBe(false);
  });
});
