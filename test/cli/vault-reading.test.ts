import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { craftVault } from "../builders/crafted-vault.ts";
import { KNOWN_PASSWORD } from "../builders/known-vaults.ts";
import { loadFixture } from "../support/fixtures.ts";
import { callTare, type Run, scratch } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

function pieces(bytes: Bytes, size = 64): Bytes[] {
  return Array.from({ length: Math.ceil(bytes.byteLength / size) }, (_, i) => bytes.slice(i * size, (i + 1) * size));
}

const text = (value: string): Bytes => new TextEncoder().encode(value);

/** Not encrypted, so that no run takes the second of Argon2id. */
function modelVault(note = "a note"): Promise<Bytes> {
  const files = [
    { path: "models", type: "directory" as const },
    { path: "models/a.gguf", chunks: pieces(smallGguf()) },
    { path: "models/b.safetensors", chunks: pieces(smallSafetensors()) },
    { path: "note.txt", chunks: [text(note)] },
  ];
  return craftVault(files, { lane: "plain" });
}

const built = modelVault();

async function run(file: ReturnType<typeof scratch>, ...args: readonly string[]): Promise<Run> {
  const vault = file("v.aerovault", await built);
  return callTare(args.map((argument) => argument.replace(/^V(?=::|$)/, vault)));
}

describe("a vault", () => {
  it("is listed by ls and by vault ls alike", async () => {
    const file = scratch();
    for (const command of [["ls"], ["vault", "ls"], ["vault", "list"]]) {
      const { code, out } = await run(file, ...command, "V", "--json");
      expect(code).toBe(0);
      expect(JSON.parse(out)).toEqual({
        format: "aerovault",
        entries: [
          { path: "models", type: "directory", size: 0, modified: "2026-06-17T00:00:00.000Z" },
          { path: "models/a.gguf", type: "file", size: smallGguf().byteLength, modified: expect.any(String) },
          { path: "models/b.safetensors", type: "file", size: expect.any(Number), modified: expect.any(String) },
          { path: "note.txt", type: "file", size: 6, modified: expect.any(String) },
        ],
      });
    }
    const some = await run(file, "vault", "ls", "V", "*.gguf");
    expect(some.out).toMatch(/^ *\d+ B {2}2026-06-17 00:00 {2}models\/a\.gguf\n$/);
    expect((await run(file, "vault", "ls", "V", "*.bin")).code).toBe(9);
    expect((await run(file, "vault", "ls", "V", "models/")).out).toMatch(/models\/\n$/);
    const model = file("m.gguf");
    writeFileSync(model, smallGguf());
    expect(await run(file, "vault", "ls", model)).toMatchObject({
      code: 2,
      err: expect.stringContaining("usage/not-a-vault"),
    });
  });

  it("is extracted by what was asked for, all of it or nothing", async () => {
    const file = scratch();
    const missing = await run(file, "vault", "extract", "V", "note.txt", "typo.txt", "-o", file("missing"));
    expect({ code: missing.code, err: missing.err }).toMatchObject({
      code: 9,
      err: expect.stringContaining("typo.txt"),
    });
    expect(existsSync(file("missing"))).toBe(false);
    expect((await run(file, "vault", "extract", "V", "models/", "-o", file("folder"))).code).toBe(0);
    expect(readdirSync(file("folder"), { recursive: true }).sort()).toEqual([
      "models",
      "models/a.gguf",
      "models/b.safetensors",
    ]);
  });

  it("gives out names that would mean something else as a glob", async () => {
    const files = ["a[1].txt", "a1.txt", "implied/{x,y}?"].map((path) => ({ path, chunks: [text(path)] }));
    const file = scratch();
    const vault = file("globs.aerovault", await craftVault(files, { lane: "plain" }));
    for (const [name, found] of [
      ["a[1].txt", ["a1.txt", "a[1].txt"]],
      ["implied/{x,y}?", ["implied", "implied/{x,y}?"]],
      ["implied", ["implied", "implied/{x,y}?"]],
    ] as const) {
      const out = file(`out-${found.length}-${name.length}`);
      expect((await callTare(["vault", "extract", vault, name, "-o", out])).code).toBe(0);
      expect(readdirSync(out, { recursive: true }).sort()).toEqual([...found]);
    }
  });

  it("gives out a file by cat and by vault cat, to standard output and to -o", async () => {
    const file = scratch();
    for (const command of [["cat"], ["vault", "cat"]]) {
      expect((await run(file, ...command, "V", "models/a.gguf")).stdout).toEqual(Buffer.from(smallGguf()));
    }
    const target = file("note.txt");
    const written = await run(file, "vault", "cat", "V", "note.txt", "-o", target, "--json");
    expect(JSON.parse(written.out)).toEqual({ name: "note.txt", byteLength: 6, output: target });
    expect(readFileSync(target, "utf8")).toBe("a note");
    expect(await run(file, "vault", "cat", "V", "no/such")).toMatchObject({ code: 9, out: "" });
    expect(await run(file, "vault", "cat", "V", "models")).toMatchObject({ code: 2, out: "" });
  });

  it("is described by inspect, info and map", async () => {
    const file = scratch();
    const inspected = JSON.parse((await run(file, "inspect", "V", "--json")).out);
    expect(inspected).toMatchObject({ format: "aerovault", version: "3", entryCount: 4, integrity: "digests" });
    const info = JSON.parse((await run(file, "vault", "info", "V", "--json")).out);
    expect(info).toMatchObject({ entryCount: 4, fileCount: 3, directoryCount: 1, unusedBytes: 0 });
    expect(info.logicalBytes).toBe(smallGguf().byteLength + smallSafetensors().byteLength + 6);
    expect((await run(file, "vault", "info", "V")).out).toContain("3 files in 1 directory");
    const rows: { kind: string; byteLength: number }[] = JSON.parse((await run(file, "map", "V", "--json")).out).rows;
    expect(rows.reduce((sum, row) => sum + row.byteLength, 0)).toBe((await built).byteLength);
    expect(rows.filter((row) => row.kind === "gap")).toEqual([]);
  });

  it("is verified block by block", async () => {
    const file = scratch();
    const good = await run(file, "verify", "V", "--json");
    expect(JSON.parse(good.out)).toMatchObject({ ok: true, weights: "compared", checked: { files: 3 } });
    const damaged = (await built).slice();
    damaged[1024 + 8 + 3] = (damaged[1024 + 8 + 3] as number) ^ 1;
    const bad = await callTare(["verify", file("bad.aerovault", damaged), "--json"]);
    expect(bad.code).toBe(5);
    expect(JSON.parse(bad.out).findings).toContainEqual(
      expect.objectContaining({ code: "integrity/aerovault.cipher-hash", name: "models/a.gguf" }),
    );
    expect(await callTare(["vault", "cat", file("bad.aerovault"), "models/a.gguf"])).toMatchObject({
      code: 5,
      out: "",
    });
  });

  it("is compared with another one", async () => {
    const file = scratch();
    const other = file("other.aerovault", await modelVault("b note!"));
    for (const command of [["diff"], ["vault", "diff"]]) {
      const { code, out } = await run(file, ...command, "V", other, "--exit-code", "--json");
      expect(code).toBe(3);
      expect(JSON.parse(out)).toEqual({
        equal: false,
        added: [],
        removed: [],
        changed: [
          { name: "note.txt", what: ["size", "data"], a: { type: "file", size: 6 }, b: { type: "file", size: 7 } },
        ],
        unchanged: 3,
      });
    }
    expect(await run(file, "vault", "diff", "V", "V", "--exit-code")).toMatchObject({ code: 0 });
  });

  it("lets the models in it be used as if they were files", async () => {
    const file = scratch();
    expect(JSON.parse((await run(file, "inspect", "V::models/a.gguf", "--json")).out)).toMatchObject({
      format: "gguf",
      tensorCount: 1,
    });
    expect((await run(file, "verify", "V::models/b.safetensors")).code).toBe(0);
    const same = await run(
      file,
      "diff",
      "V::models/b.safetensors",
      file("b.safetensors", smallSafetensors()),
      "--exit-code",
    );
    expect(same.code).toBe(0);
    const out = file("copy.safetensors");
    expect((await run(file, "convert", "V::models/b.safetensors", out)).code).toBe(0);
    expect(readFileSync(out)).toEqual(Buffer.from(smallSafetensors()));
    expect(await run(file, "stats", "V")).toMatchObject({ code: 2, err: expect.stringContaining("ARCHIVE::path") });
    expect(await run(file, "cat", "V::models/c.gguf", "x")).toMatchObject({ code: 9 });
    expect(await run(file, "vault", "ls", "V::models/a.gguf")).toMatchObject({ code: 2 });
    // What lies in a vault is not edited in place.
    expect(await run(file, "stamp", "V::models/a.gguf", "--set", "a=b")).toMatchObject({ code: 2 });
    expect(readFileSync(file("v.aerovault"))).toEqual(Buffer.from(await built));
  });
});

describe("passwords of a vault", () => {
  it("come from a file, from the environment, or are missed", async () => {
    const file = scratch();
    const vault = file("v.aerovault", loadFixture("aerovault-sealed", "encrypted"));
    const right = file("right", `${KNOWN_PASSWORD}\n`);
    expect(await callTare(["vault", "cat", vault, "a.txt", "--password-file", right])).toMatchObject({
      code: 0,
      out: "alpha shared\n",
    });
    const env = { TARE_PASSWORD: "another one" };
    expect(await callTare(["vault", "ls", vault], { env })).toMatchObject({ code: 11, out: "" });
    expect(await callTare(["ls", vault])).toMatchObject({
      code: 11,
      out: "",
      err: expect.stringContaining("password"),
    });
  });
});

describe("tare vault", () => {
  it("lists its verbs, and says what is missing", async () => {
    const help = await callTare(["vault", "--help"]);
    expect(help).toMatchObject({ code: 0, out: expect.stringContaining("vault ls VAULT [GLOB…]") });
    expect((await callTare(["help", "vault", "ls"])).out).toContain("--long");
    expect(await callTare(["vault"])).toMatchObject({ code: 2, err: expect.stringContaining("without a verb") });
    expect(await callTare(["vault", "lss"])).toMatchObject({ code: 2, err: expect.stringContaining('"vault ls"') });
  });
});
