import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Progress } from "../../src/api/options.ts";
import type { ChangeOptions, NewEntry } from "../../src/api/vault/options.ts";
import { createVault, openVault, type Vault } from "../../src/platform/node/vault/library.ts";
import { lockVault } from "../../src/platform/node/vault/lock.ts";
import {
  at,
  code,
  env,
  folder,
  left,
  open,
  password,
  path,
  pause,
  sha,
  text,
  useVaultFolder,
  using,
} from "../support/vault-folder.ts";

useVaultFolder();

describe("changes", () => {
  test("of a batch are one commit, and none if it throws or its signal aborts", async () => {
    await using(await open(), async (vault) => {
      const before = sha(path);
      const value = await vault.batch(async (v) => {
        await v.write("x", "1");
        expect((await v.write("y", "2")).byteLength).toBe(null);
        await v.move("y", "z");
        await v.mkdir("made");
        expect(v.has("x")).toBe(false);
        expect(text(await v.read("notes", {}).catch(() => new Uint8Array(0)))).toBe("");
        for (const call of [
          () => v.compact(),
          () => v.changePassword("another password"),
          () => v.parity.embed(),
          () => v.batch(async () => 1),
        ])
          expect(await code(call())).toBe("usage/vault.batch");
        expect(sha(path)).toBe(before);
        return 7;
      });
      expect([value, vault.has("x"), vault.has("z"), vault.has("made")]).toEqual([7, true, true, true]);
      const after = sha(path);
      const reason = new Error("of the work");
      const failed = vault.batch(async (v) => {
        await v.write("lost", "3");
        await v.remove("x");
        throw reason;
      });
      await expect(failed).rejects.toBe(reason);
      const stop = new AbortController();
      const aborted = vault.batch(
        async (v) => {
          await v.write("lost", "3");
          stop.abort(reason);
          await new Promise(() => undefined);
        },
        { signal: stop.signal },
      );
      await expect(aborted).rejects.toBe(reason);
      expect([sha(path), vault.has("lost"), vault.has("x")]).toEqual([after, false, true]);
      expect(left()).toEqual([]);
    });
  });

  test("from inside a batch that do not go through its vault fail at once, and wait elsewhere", async () => {
    await using(await open(), async (vault) => {
      // Another open vault of the same file is another writer: it waits, as a program would.
      const other = await open({ lockTimeout: 100 });
      const before = sha(path);
      let late: Promise<unknown> | undefined;
      let goOn = (): void => undefined;
      const ended = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      await vault.batch(async (v) => {
        const calls = [
          () => vault.write("x", "1"),
          () => vault.batch(async () => 1),
          () => vault.compact(),
          () => vault.changePassword("another password"),
          () => vault.parity.embed(),
          () => v.write("y", "2").then(() => vault.remove("y")),
        ];
        for (const call of calls) expect(await code(call())).toBe("usage/vault.batch");
        expect(await code(other.write("x", "1"))).toBe("source/vault.locked");
        const wrong = vault.write("x", "1");
        await expect(wrong).rejects.toMatchObject({ hint: "Use the vault that batch gives you" });
        expect(sha(path)).toBe(before);
        late = ended.then(() => vault.write("late", "3"));
      });
      goOn();
      await late;
      expect([vault.has("x"), vault.has("y"), vault.has("late")]).toEqual([false, true, true]);
      await other.close();
    });
  });

  test("of a batch that fail leave nothing of themselves if the work goes on", async () => {
    await using(await open(), async (vault) => {
      let kept: Vault | undefined;
      await vault.batch(async (v) => {
        kept = v;
        const pieces = async function* (): AsyncGenerator<Uint8Array> {
          yield new Uint8Array(200_000);
          throw new Error("of the stream");
        };
        const half = v.add([
          { path: "half/a", data: "1" },
          { path: "half/b", data: pieces() },
        ]);
        await expect(half).rejects.toThrow("of the stream");
        expect(await code(v.remove(["reports", "nothing"], { recursive: true }))).toBe("usage/entry-not-found");
        expect(await v.remove("reports", { recursive: true, dryRun: true })).toMatchObject({
          dryRun: true,
          removed: 5,
        });
        await v.write("whole", "2");
      });
      expect(vault.entries.map((entry) => entry.path)).toContain("whole");
      expect(vault.has("half")).toBe(false);
      expect(text(await vault.read("reports/old/c.txt"))).toBe("c");
      expect((await vault.scrub()).ok).toBe(true);
      expect(await code((kept as Vault).write("late", "1"))).toBe("usage/vault.closed");
    });
  });

  test("of a path that no vault can hold are refused, dry runs too, and leave the vault as it was", async () => {
    const lone = "a\ud800b";
    const file = { path: lone, data: "x" };
    const calls: readonly ((vault: Vault, dryRun: boolean) => Promise<unknown>)[] = [
      (v, dryRun) => v.write(lone, "x", { dryRun }),
      (v, dryRun) => v.add(file, { dryRun }),
      (v, dryRun) => v.add({ ...file, path: "x" }, { to: lone, dryRun }),
      (v, dryRun) => v.add(at("notes.txt"), { to: lone, dryRun }),
      (v, dryRun) => v.mkdir(["fine", lone], { dryRun }),
      (v, dryRun) => v.move("reports", lone, { dryRun }),
      (v, dryRun) => v.copy("reports", lone, { dryRun }),
      (v, dryRun) => v.batch((b) => b.write(lone, "x"), { dryRun }),
    ];
    await using(await open(), async (vault) => {
      const before = sha(path);
      for (const call of calls)
        for (const dryRun of [false, true]) expect(await code(call(vault, dryRun))).toBe("usage/vault.path");
      expect(await code(vault.write("x", "text \udc00"))).toBe("usage/option-value");
      expect(await code(vault.changePassword("some \ud800 password"))).toBe("usage/password.source");
      expect(sha(path)).toBe(before);
    });
  });

  test("leave entries readable that were taken before them, as long as their file is the same", async () => {
    await using(await open(), async (vault) => {
      const taken = vault.entries.filter(({ type }) => type === "file");
      for (const [i, entry] of taken.entries()) {
        await vault.write(`new/${i}`, "1");
        expect((await entry.source().read(0, 1)).byteLength).toBe(1);
      }
      const [first, last] = [vault.entry("reports/a.txt"), vault.entry("reports/b.tmp")];
      await vault.write("reports/a.txt", "another");
      expect(await code(first.source().read(0, 1))).toBe("source/changed");
      await vault.remove("reports/b.tmp");
      expect(await code(last.source().read(0, 1))).toBe("source/changed");
    });
  });

  test("are noticed by an entry whose state is still being read", async () => {
    await using(await open(), async (vault) => {
      const entry = vault.entry("reports/a.txt");
      const reading = vault.source("demo.safetensors").stream(0)[Symbol.asyncIterator]();
      await reading.next();
      await vault.write("reports/a.txt", "another");
      expect(await code(entry.source().read(0, 1))).toBe("source/changed");
      await reading.return?.(undefined);
    });
  });

  test.each<[string, (vault: Vault, options: ChangeOptions) => Promise<unknown>]>([
    ["compact", (vault, options) => vault.compact(options)],
    ["parity.embed", (vault, options) => vault.parity.embed(options)],
    ["parity.strip", (vault, options) => vault.parity.strip({ ...options, force: true })],
    ["compact with parity", (vault, options) => vault.compact(options)],
  ])("tell their progress, from nothing to the end: %s", async (verb, change) => {
    await using(await open(), async (vault) => {
      if (verb !== "compact" && verb !== "parity.embed") await vault.parity.embed();
      for (const dryRun of [true, false]) {
        const events: Progress[] = [];
        await change(vault, { dryRun, onProgress: (event) => void events.push(event) });
        const [first, last] = [events[0], events.at(-1)];
        expect(first).toMatchObject({ type: "progress", done: 0 });
        expect(events.length).toBeGreaterThan(1);
        expect(last?.done).toBe(last?.total);
        if (!dryRun && verb !== "parity.strip") expect(last?.done).toBeGreaterThan(100_000);
      }
    });
  });

  test("of more bytes than a vault can hold are refused before the first is read, and doubtful ones have a warning", async () => {
    let reads = 0;
    const sized = (byteLength: number): NewEntry => ({
      path: "huge",
      data: {
        label: "huge",
        byteLength,
        read: () => Promise.reject(new Error(`read ${++reads}`)),
        // biome-ignore lint/correctness/useYield: it only counts
        async *stream() {
          throw new Error(`read ${++reads}`);
        },
        close: async () => undefined,
      },
    });
    await using(await open(), async (vault) => {
      const before = sha(path);
      for (const dryRun of [true, false])
        expect(await code(vault.add(sized(2 ** 49), { dryRun }))).toBe("limit/aerovault.manifest-bytes");
      expect(reads).toBe(0);
      const notes: string[] = [];
      const onNote = (text: string): void => void notes.push(text);
      await vault.add(sized(500e9), { dryRun: true, onNote });
      expect(notes).toEqual([]);
      await vault.add(sized(600e9), { dryRun: true, onNote });
      expect(notes).toEqual([expect.stringMatching(/room for about 0\.5\d TB .*0\.60 TB/)]);
      await expect(vault.add(sized(600e9), { onNote })).rejects.toThrow(/read \d/);
      expect([notes.length, sha(path)]).toEqual([2, before]);
    });
  });

  test("wait for another writer, and apply to the vault as it is then", async () => {
    const [a, b] = [await open(), await open({ lockTimeout: 300 })];
    let begin = (): void => undefined;
    // Begun here, it is no part of the batch.
    const waiting = new Promise<void>((resolve) => {
      begin = resolve;
    }).then(() => code(b.write("late", "2")));
    await a.batch(async (v) => {
      await v.write("held", "1");
      begin();
      expect(await waiting).toBe("source/vault.locked");
    });
    await b.write("late", "2");
    expect([b.has("held"), b.has("late"), a.has("late")]).toEqual([true, true, false]);
    await Promise.all([a.write("more", "3"), a.write("and more", "4")]);
    expect([a.has("late"), a.has("more"), a.has("and more")]).toEqual([true, true, true]);
    const lock = await lockVault(path);
    expect(await code(b.mkdir("x"))).toBe("source/vault.locked");
    await lock.release();
    await a.close();
    await b.close();
  });

  test("survive another password, and end with other keys", async () => {
    const [a, b] = [await open(), await open()];
    await a.changePassword("another password");
    await b.write("still", "1");
    expect(text(await a.read("reports/old/c.txt"))).toBe("c");
    await a.changePassword("third password", { rekey: true });
    await a.write("mine", "2");
    expect([a.has("still"), a.has("mine"), text(await a.read("reports/old/c.txt"))]).toEqual([true, true, "c"]);
    const before = sha(path);
    expect(await code(b.write("lost", "3"))).toBe("source/vault.keys");
    expect(sha(path)).toBe(before);
    await a.close();
    await b.close();
    await using(await open({ password: "third password" }), async (vault) =>
      expect((await vault.scrub()).ok).toBe(true),
    );
  });

  test("that are aborted in the middle leave no file, no lock and the old vault", async () => {
    await using(await open(), async (vault) => {
      const before = sha(path);
      const reason = new Error("enough");
      const signal = AbortSignal.abort(reason);
      await expect(vault.add(at("big.bin"), { signal })).rejects.toBe(reason);
      const stop = new AbortController();
      // Events come at most ten a second: a clock that runs fast gives one for each step, on a fast machine too.
      let now = 0;
      const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 200));
      onTestFinished(() => clock.mockRestore());
      const adding = vault.add(at("big.bin"), {
        signal: stop.signal,
        onProgress: ({ done }) => done > 0 && stop.abort(reason),
      });
      await expect(adding).rejects.toBe(reason);
      const later = new AbortController();
      const waiting = vault.write("x", new ReadableStream({ pull: () => new Promise(() => undefined) }), {
        signal: later.signal,
      });
      await pause(200);
      later.abort(reason);
      await expect(waiting).rejects.toBe(reason);
      expect([sha(path), vault.has("big.bin"), left()]).toEqual([before, false, []]);
      await vault.add(at("big.bin"));
      expect(readFileSync(at("big.bin")).equals(await vault.read("big.bin"))).toBe(true);
    });
  });

  test("tell progress from nothing to all, and notes without a prefix", async () => {
    await using(await open(), async (vault) => {
      const events: { label: string; done: number; total: number | null }[] = [];
      const notes: string[] = [];
      const onNote = (note: string): void => void notes.push(note);
      await vault.add([at("big.bin"), at("reports")], { onProgress: (event) => void events.push(event), onNote });
      expect(events[0]).toMatchObject({ type: "progress", label: "adding", done: 0 });
      expect(events.at(-1)?.done).toBe(events.at(-1)?.total);
      await vault.batch((v) => v.add(at("reports"), { onNote }));
      expect(notes.filter((note) => note === 'replaced "reports/a.txt"')).toHaveLength(2);
    });
  });

  test("go to the vault that was opened, wherever the program is by then", async () => {
    const here = process.cwd();
    mkdirSync(at("elsewhere"), { recursive: true });
    process.chdir(folder);
    try {
      const name = path.slice(folder.length + 1);
      const vault = await openVault(name, { password, env });
      copyFileSync(path, at(`elsewhere/${name}`));
      const before = sha(path);
      process.chdir("elsewhere");
      await vault.write("x", "1");
      await vault.close();
      expect(sha(path)).not.toBe(before);
      expect(sha(name)).toBe(before);
    } finally {
      process.chdir(here);
    }
  });

  test("of a process that dies in a batch are gone, and the next writer goes on", async () => {
    const entry = pathToFileURL(new URL("../../dist/node/vault.js", import.meta.url).pathname).href;
    const before = sha(path);
    writeFileSync(
      at("dies.mjs"),
      `import { openVault } from ${JSON.stringify(entry)};
       const v = await openVault(${JSON.stringify(path)}, { password: ${JSON.stringify(password)} });
       await v.batch(async (v) => { await v.add(${JSON.stringify(at("big.bin"))}); console.log("ready"); await new Promise((r) => setTimeout(r, 60000)); });`,
    );
    const child = spawn(process.execPath, [at("dies.mjs")], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"],
    });
    await new Promise((resolve) => {
      child.stdout.once("data", resolve);
      child.once("exit", resolve);
    });
    expect(child.exitCode).toBe(null);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    expect(sha(path)).toBe(before);
    await using(await open(), async (vault) => {
      expect(vault.has("big.bin")).toBe(false);
      await vault.write("alive", "1");
      expect([vault.has("alive"), (await vault.scrub()).ok]).toEqual([true, true]);
    });
    expect(left()).toEqual([]);
  });

  test("that are aborted before any thread has work let the program end", async () => {
    const entry = pathToFileURL(new URL("../../dist/node/vault.js", import.meta.url).pathname).href;
    writeFileSync(
      at("ends.mjs"),
      `import { openVault } from ${JSON.stringify(entry)};
       const v = await openVault(${JSON.stringify(path)}, { password: ${JSON.stringify(password)} });
       const stop = new AbortController();
       const adding = v.add(${JSON.stringify(at("big.bin"))}, { signal: stop.signal }).catch((reason) => console.log(reason));
       stop.abort("stopped");
       await adding;
       await v.close();`,
    );
    const child = spawn(process.execPath, [at("ends.mjs")], { env: { ...process.env, ...env } });
    let said = "";
    child.stdout.on("data", (piece) => {
      said += piece;
    });
    await new Promise((resolve) => child.once("exit", resolve));
    expect([child.exitCode, said]).toEqual([0, "stopped\n"]);
  });

  test("of a plain vault need no password", async () => {
    const vault = await createVault(at("plain.aerovault"), { encryption: false, parity: "low", env });
    await vault.write("a", "1");
    expect(vault.toJSON()).toMatchObject({ encrypted: false, profile: "balanced" });
    expect(await code(vault.changePassword("another password"))).toBe("unsupported/vault.plain");
    await vault.close();
    expect(await code(openVault(at("plain.aerovault"), { password, env }))).toBe("usage/vault.unencrypted");
    await using(await openVault(at("plain.aerovault"), { env }), async (v) =>
      expect(text(await v.read("a"))).toBe("1"),
    );
  });
});
