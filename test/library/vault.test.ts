import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { inspect } from "../../src/api/look/inspect.ts";
import { createVault as createHere, openVault as openHere } from "../../src/api/vault/index.ts";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { nodeHost } from "../../src/platform/node/host.ts";
import { inspect as inspectPath, list as listPath } from "../../src/platform/node/index.ts";
import { createVault, openVault, repairVault, type Vault } from "../../src/platform/node/vault/library.ts";
import { callTare } from "../cli/run-tare.ts";
import {
  at,
  code,
  env,
  folder,
  left,
  open,
  password,
  path,
  sha,
  text,
  useVaultFolder,
  using,
} from "../support/vault-folder.ts";

useVaultFolder();

const DRY = { recursive: true, dryRun: true } as const;

describe("a vault of a program", () => {
  test("is made empty, writable, and takes text, bytes, Blobs, sources and streams", async () => {
    await using(await createVault(at("made.aerovault"), { password, profile: "fast", env }), async (vault) => {
      expect([vault.kind, vault.writable, vault.entries.length, vault.format, vault.version]).toEqual([
        "archive",
        true,
        0,
        "aerovault",
        "3",
      ]);
      const other = new Blob(["from a source"]);
      await vault.write("notes/a.txt", "hello");
      await vault.write("b.bin", new Uint8Array([1, 2, 3]));
      const result = await vault.add([
        { path: "c.txt", data: new Blob(["from a blob"]) },
        {
          path: "d.txt",
          data: (async function* () {
            yield new TextEncoder().encode("str");
            yield new TextEncoder().encode("eamed");
          })(),
        },
        { path: "e.txt", data: other.stream(), modified: new Date(1_600_000_000_000), mode: 0o640 },
        { path: "f.txt", data: new TextEncoder().encode("buffer").buffer },
        { path: "g.txt", data: vault.source("notes/a.txt") },
      ]);
      expect(result).toMatchObject({
        vault: at("made.aerovault"),
        dryRun: false,
        files: 5,
        directories: 0,
        replaced: [],
      });
      expect(result.byteLength).toBe(readFileSync(at("made.aerovault")).byteLength);
      for (const [name, wanted] of Object.entries({
        "notes/a.txt": "hello",
        "c.txt": "from a blob",
        "d.txt": "streamed",
        "e.txt": "from a source",
        "f.txt": "buffer",
        "g.txt": "hello",
      })) {
        expect([name, text(await vault.read(name))]).toEqual([name, wanted]);
      }
      expect(vault.entry("e.txt")).toMatchObject({ type: "file", size: 13, modified: 1_600_000_000_000, mode: 0o640 });
      expect([vault.has("c.txt"), vault.has("no"), vault.has("notes")]).toEqual([true, false, true]);
      expect([...(await vault.source("b.bin").read(1, 2))]).toEqual([2, 3]);
      expect(() => vault.entry("c.tx")).toThrow(
        expect.objectContaining({ code: "usage/entry-not-found", hint: expect.stringContaining("c.txt") }),
      );
      expect((await callTare(["vault", "cat", at("made.aerovault"), "c.txt"], { env })).out).toBe("from a blob");
      const replaced = await vault.write("c.txt", "another");
      expect(replaced.replaced).toEqual(["c.txt"]);
      expect(text(await vault.read("c.txt"))).toBe("another");
    });
    expect(left()).toEqual([]);
  });

  test("that is older than the one last seen says so in every report, as the commands do", async () => {
    // The command has seen a later state of this vault, under this name.
    copyFileSync(path, at("older.aerovault"));
    copyFileSync(path, at("other.aerovault"));
    const memory = { ...env, XDG_STATE_HOME: at("state-older") };
    expect((await callTare(["vault", "mkdir", at("older.aerovault"), "later"], { env: memory })).code).toBe(0);
    copyFileSync(path, at("older.aerovault"));
    const run = async (...args: string[]): Promise<Record<string, unknown>> =>
      JSON.parse((await callTare([...args, "--json"], { cwd: folder, env: memory })).out);
    const older = { severity: "warning", code: "integrity/vault.older" };
    const calls: readonly (readonly [readonly string[], (vault: Vault) => Promise<unknown>])[] = [
      [["vault", "ls", "older.aerovault"], (v) => v.list()],
      [["vault", "info", "older.aerovault"], (v) => v.info()],
      [["vault", "scrub", "older.aerovault"], (v) => v.scrub()],
      [
        ["vault", "diff", "older.aerovault", "other.aerovault"],
        (v) => v.diff("other.aerovault", { password, env: memory }),
      ],
      [["vault", "cat", "older.aerovault", "reports/a.txt", "-o", "a.out"], (v) => v.cat("reports/a.txt", "a.out")],
      [["vault", "extract", "older.aerovault", "-o", "out", "--dry-run"], (v) => v.extract("out", { dryRun: true })],
      // The result of a change has no warnings: the vault itself has them.
      [
        ["vault", "rm", "older.aerovault", "reports", "-r", "--dry-run"],
        async (v) => ({ ...(await v.remove("reports", DRY)), warnings: v.warnings }),
      ],
      [["inspect", "older.aerovault"], () => inspectPath("older.aerovault", { password, env: memory })],
      [["ls", "older.aerovault"], () => listPath("older.aerovault", { password, env: memory })],
      [
        ["vault", "repair", "older.aerovault", "--dry-run"],
        () => repairVault("older.aerovault", { dryRun: true, password, env: memory }),
      ],
    ];
    const here = process.cwd();
    for (const [args, call] of calls) {
      const { cost: _, ...document } = await run(...args);
      rmSync(at("a.out"), { force: true });
      process.chdir(folder);
      try {
        const vault = await openVault("older.aerovault", { password, env: memory });
        const { cost: __, ...result } = (await using(vault, call)) as Record<string, unknown>;
        expect({ args, result: JSON.parse(JSON.stringify(result)) }).toEqual({ args, result: document });
        expect({ args, warnings: result["warnings"] }).toMatchObject({
          args,
          warnings: expect.arrayContaining([expect.objectContaining(older)]),
        });
      } finally {
        process.chdir(here);
      }
    }
  });

  test("gives what the commands print", async () => {
    // Each program remembers what it saw of a vault, and there are two copies of one.
    let states = 0;
    const withoutMemory = (): Record<string, string> => ({ ...env, XDG_STATE_HOME: at(`state-${states++}`) });
    const copy = at("commands");
    mkdirSync(copy, { recursive: true });
    copyFileSync(path, join(copy, "v.aerovault"));
    const here = process.cwd();
    const work = at("functions");
    mkdirSync(work, { recursive: true });
    copyFileSync(path, join(work, "v.aerovault"));
    writeFileSync(join(copy, "new"), "a new password, long enough");
    for (const one of [copy, work]) copyFileSync(at("base.aerovault"), join(one, "base.aerovault"));
    const run = async (...args: string[]): Promise<unknown> =>
      JSON.parse((await callTare([...args, "--json"], { cwd: copy, env: withoutMemory() })).out);
    const same = async (args: string[], call: (vault: Vault) => Promise<unknown>): Promise<void> => {
      const document = await run("vault", ...args);
      process.chdir(work);
      try {
        const vault = await openVault("v.aerovault", { password, env: withoutMemory() });
        const result = await using(vault, call);
        expect({ args, result: JSON.parse(JSON.stringify(result)) }).toEqual({ args, result: document });
      } finally {
        process.chdir(here);
      }
    };
    await same(["ls", "v.aerovault", "reports/*"], (v) => v.list({ glob: "reports/*" }));
    await same(["ls", "v.aerovault", "reports/*.t*", "demo*", "--sort", "size"], (v) =>
      v.list({ glob: ["reports/*.t*", "demo*"], sort: "size" }),
    );
    await same(["info", "v.aerovault"], (v) => v.info());
    await same(["add", "v.aerovault", at("reports"), at("notes.txt"), "--exclude", "*.tmp", "--to", "in"], (v) =>
      v.add([at("reports"), at("notes.txt")], { exclude: "*.tmp", to: "in" }),
    );
    await same(["add", "v.aerovault", at("notes.txt"), "--dry-run"], (v) => v.add(at("notes.txt"), { dryRun: true }));
    await same(["mkdir", "v.aerovault", "a/b", "c"], (v) => v.mkdir(["a/b", "c"]));
    await same(["cp", "v.aerovault", "in/notes.txt", "a/b/n.txt"], (v) => v.copy("in/notes.txt", "a/b/n.txt"));
    await same(["mv", "v.aerovault", "a/b/n.txt", "c"], (v) => v.move("a/b/n.txt", "c"));
    await same(["rm", "v.aerovault", "a", "--recursive"], (v) => v.remove("a", { recursive: true }));
    await same(["cat", "v.aerovault", "in/notes.txt", "-o", "cat.txt"], (v) => v.cat("in/notes.txt", "cat.txt"));
    await same(["extract", "v.aerovault", "in/*", "-o", "out"], (v) => v.extract("out", { glob: "in/*" }));
    await same(["scrub", "v.aerovault"], (v) => v.scrub());
    await same(["diff", "base.aerovault", "v.aerovault"], async () => {
      const base = await openVault("base.aerovault", { password, env: withoutMemory() });
      return using(base, (v) => v.diff("v.aerovault", { password, env: withoutMemory() }));
    });
    await same(["parity", "v.aerovault", "embed", "--parity", "25%"], (v) => v.parity.embed({ parity: "25%" }));
    await same(["parity", "v.aerovault", "export"], (v) => v.parity.export());
    await using(await openVault(join(work, "v.aerovault"), { password, env: withoutMemory() }), async (v) => {
      expect((await v.info()).facts["sidecar"]).toContain("made of this header and this manifest");
    });
    await same(["parity", "v.aerovault", "strip"], (v) => v.parity.strip());
    await same(["compact", "v.aerovault"], (v) => v.compact());
    const repaired = await run("vault", "repair", "base.aerovault", "--dry-run");
    const made = await run("vault", "create", "made.aerovault", "--profile", "archive");
    process.chdir(work);
    try {
      expect(JSON.parse(JSON.stringify(await repairVault("base.aerovault", { dryRun: true, password, env })))).toEqual(
        repaired,
      );
      const vault = await createVault("made.aerovault", { profile: "archive", password, env });
      expect(JSON.parse(JSON.stringify(vault))).toEqual(made);
      await vault.close();
      expect(JSON.parse(JSON.stringify(vault))).toEqual(made);
    } finally {
      process.chdir(here);
    }
    await same(["passwd", "v.aerovault", "--new-password-file", "new"], (v) =>
      v.changePassword("a new password, long enough"),
    );
    expect(await code(openVault(join(work, "v.aerovault"), { password, env }))).toBe("usage/password.wrong");
    await (await openVault(join(work, "v.aerovault"), { password: "a new password, long enough", env })).close();
  }, 120_000);

  test("opens with a password as text, bytes and function, which is asked once", async () => {
    let asked = 0;
    const ask = async (label: string): Promise<Uint8Array> => {
      asked++;
      expect(label).toBe(path);
      return new TextEncoder().encode(password);
    };
    for (const secret of [password, new TextEncoder().encode(password), () => password, ask]) {
      await using(await open({ password: secret }), async (vault) => {
        await vault.write("x", "1");
        await vault.remove("x");
      });
    }
    expect(asked).toBe(1);
    expect(await code(open({ password: undefined }))).toBe("usage/password.missing");
    expect(await code(open({ password: "something else" }))).toBe("usage/password.wrong");
    expect(await code(open({ password: 7 }))).toBe("usage/option-value");
  });

  test("is an input of every verb and stays open; a model in it is read in place", async () => {
    await using(await open(), async (vault) => {
      const result = await inspect(nodeHost(), vault);
      expect(result).toMatchObject({ format: "aerovault", entryCount: 6 });
      const model = await vault.openModel("demo.safetensors");
      const wanted = await model.tensors[0]?.bytes();
      await vault.write("later", "1");
      await vault.remove("later");
      expect(await model.tensors[0]?.bytes()).toEqual(wanted);
      const inside = await inspect(nodeHost(), model);
      expect(inside.tensorCount).toBe(model.tensors.length);
      await model.close();
      expect(vault.entries.length).toBe(6);
      expect(await code(vault.openModel("reports/a.txt"))).toMatch(/^unsupported/);
    });
    expect(await code(openVault(at("demo/demo.safetensors"), { env }))).toBe("usage/not-a-vault");
  });

  test("reads a source on while others change, and says when its file is another one", async () => {
    await using(await open(), async (vault) => {
      const source = vault.source("reports/a.txt");
      const stream = source.stream(0);
      await stream[Symbol.asyncIterator]().next();
      await vault.write("other", "1");
      expect(source.byteLength).toBe(10_000);
      expect(text(await source.read(0, 4))).toBe("a\na\n");
      await vault.write("reports/a.txt", "changed");
      expect(await code(source.read(0, 4))).toBe("source/changed");
      expect(text(await vault.read("reports/a.txt"))).toBe("changed");
      expect(await code(vault.read("reports/a.txt", { maxBytes: 3 }))).toBe("limit/memory");
    });
  });

  test("extracts and reads everywhere, and is changed by its path alone", async () => {
    const bytes = new Uint8Array(readFileSync(path));
    await using(await openHere(bytes, { password }), async (vault) => {
      expect(vault.writable).toBe(false);
      expect(await code(vault.write("q", "1"))).toBe("usage/vault.read-only");
      expect(await code(vault.batch(async () => 1))).toBe("usage/vault.read-only");
      const out = memoryOutput("");
      expect(await vault.extract(out, { glob: ["reports"] })).toMatchObject({ files: 3, directories: 2, failed: [] });
      expect([...out.files.keys()].sort()).toEqual(["reports/a.txt", "reports/b.tmp", "reports/old/c.txt"]);
      expect((await vault.scrub()).ok).toBe(true);
    });
    expect(await code(createHere("x.aerovault"))).toBe("usage/vault.read-only");
    expect(await code(openHere(path))).toBe("usage/not-a-url");
    await using(await openVault(pathToFileURL(path), { password, env }), async (vault) =>
      expect(vault.writable).toBe(true),
    );
  });

  test("refuses wrong options and arguments before anything is opened", async () => {
    const wrong = { frobnicate: 1 } as object;
    expect(await code(open(wrong))).toBe("usage/unknown-option");
    expect(await code(createVault(at("w.aerovault"), { password, env, ...wrong }))).toBe("usage/unknown-option");
    expect(await code(createVault(at("w.aerovault"), { password, env, profile: "slow" as "fast" }))).toBe(
      "usage/option-value",
    );
    expect(await code(createVault(at("w.aerovault"), { password, env, parity: "60%" }))).toBe("usage/option-value");
    expect(await code(createVault(at("w.aerovault"), { password: "short", env }))).toBe("usage/vault.password");
    expect(await code(createVault(at("w.aerovault"), { env }))).toBe("usage/password.missing");
    expect(await code(createVault(path, { password, env }))).toBe("usage/exists");
    expect(await code(repairVault(path, { env, ...wrong }))).toBe("usage/unknown-option");
    expect(existsSync(at("w.aerovault"))).toBe(false);
    const before = sha(path);
    await using(await open(), async (vault) => {
      const calls: Record<string, () => Promise<unknown>> = {
        add: () => vault.add(at("notes.txt"), wrong),
        write: () => vault.write("x", "1", wrong),
        mkdir: () => vault.mkdir("x", wrong),
        remove: () => vault.remove("reports", wrong),
        move: () => vault.move("reports", "x", wrong),
        copy: () => vault.copy("reports", "x", wrong),
        changePassword: () => vault.changePassword("another password", wrong),
        compact: () => vault.compact(wrong),
        export: () => vault.parity.export(wrong),
        embed: () => vault.parity.embed(wrong),
        strip: () => vault.parity.strip(wrong),
        batch: () => vault.batch(async (v) => void (await v.mkdir("x")), wrong),
        read: () => vault.read("reports/a.txt", wrong),
        list: () => vault.list(wrong),
        cat: () => vault.cat("reports/a.txt", at("cat"), wrong),
        extract: () => vault.extract(at("out-w"), wrong),
        diff: () => vault.diff(path, wrong),
        scrub: () => vault.scrub(wrong),
        openModel: () => vault.openModel("demo.safetensors", wrong),
      };
      for (const [name, call] of Object.entries(calls))
        expect([name, await code(call())]).toEqual([name, "usage/unknown-option"]);
      const values: Record<string, () => Promise<unknown>> = {
        to: () => vault.write("x", "1", { to: 7 as unknown as string }),
        data: () => vault.write("x", 7 as unknown as string),
        entry: () => vault.add([{ path: 7, data: "x" } as unknown as string]),
        mode: () => vault.add({ path: "x", data: "x", mode: 0o70000 }),
        time: () => vault.add({ path: "x", data: "x", modified: Number.NaN }),
        far: () => vault.add({ path: "x", data: "x", modified: 9e15 }),
        pieces: () =>
          vault.write(
            "x",
            (async function* () {
              yield "text" as unknown as Uint8Array;
            })(),
          ),
        paths: () => vault.mkdir([7 as unknown as string]),
        password: () => vault.changePassword(7 as unknown as string),
        work: () => vault.batch(7 as unknown as () => Promise<void>),
        recursive: () => vault.remove("reports", { recursive: "yes" as unknown as boolean }),
      };
      for (const [name, call] of Object.entries(values))
        expect([name, await code(call())]).toEqual([name, "usage/option-value"]);
      expect(await code(vault.write("../x", "1"))).toBe("usage/vault.path");
      expect(await code(vault.add(at("nothing-here")))).toBe("source/not-found");
      expect(await code(vault.remove("nothing"))).toBe("usage/entry-not-found");
      expect(await code(vault.changePassword("short"))).toBe("usage/vault.password");
      expect(await code(vault.cat("reports/a.txt", path, { force: true }))).toBe("usage/vault.own-file");
    });
    expect(sha(path)).toBe(before);
    expect(left()).toEqual([]);
  });

  test("refuses everything but close() once it is closed; a dry run is closed already", async () => {
    const vault = await open();
    const entry = vault.entry("reports/a.txt");
    const source = vault.source("reports/a.txt");
    await vault.close();
    await vault.close();
    await vault[Symbol.asyncDispose]();
    const calls = [
      () => vault.read("reports/a.txt"),
      () => vault.list(),
      () => vault.info(),
      () => vault.scrub(),
      () => vault.write("x", "1"),
      () => vault.batch(async () => 1),
      () => vault.compact(),
      () => vault.parity.export(),
      () => vault.cat("reports/a.txt", at("c")),
      () => vault.extract(at("x")),
      () => vault.diff(path),
      () => vault.openModel("m"),
      () => inspect(nodeHost(), vault),
      () => source.read(0, 1),
      async () => entry.source(),
      async () => vault.entries,
      async () => vault.has("x"),
    ];
    for (const call of calls) expect(await code(call())).toBe("usage/vault.closed");
    expect(vault.writable).toBe(false);
    const dry = await createVault(at("dry.aerovault"), { password, env, dryRun: true });
    expect(dry.toJSON()).toEqual({
      vault: at("dry.aerovault"),
      dryRun: true,
      format: "aerovault",
      version: "3",
      profile: "balanced",
      encrypted: true,
      byteLength: 0,
    });
    expect(await code(dry.write("x", "1"))).toBe("usage/vault.closed");
    expect(existsSync(at("dry.aerovault"))).toBe(false);
  });
});
