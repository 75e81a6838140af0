import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  promises,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { mountTable } from "../../src/platform/node/files/partial-files.ts";
import { callHere, callTare, type Run } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

/** What --force replaces, and what it never does. */

let folder: string;
let place: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-replacing-"));
  writeFileSync(join(folder, "m.safetensors"), smallSafetensors());
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  await ok(["keygen", "-o", "@k"]);
  await ok(["convert", "@m.safetensors", "@m.apr"]);
  await ok(["vault", "create", "@v", "--no-encryption", "--parity", "20%"]);
  writeFileSync(join(folder, "X"), "from the vault");
  writeFileSync(join(folder, "A"), "also from the vault");
  await ok(["vault", "add", "@v", "@A", "@X"]);
  await ok(["correct", "gen", "@m.gguf"]);
});
beforeEach(() => {
  place = mkdtempSync(join(folder, "place-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** A command whose words that begin with @ are paths in the folder, and with % in the folder of the test. */
function run(args: readonly string[], call = callTare): Promise<Run> {
  const named = args.map((word) => word.replace(/^@/, `${folder}/`).replace(/^%/, `${place}/`));
  return call(named, { env: { XDG_STATE_HOME: join(folder, ".state") } });
}

async function ok(args: readonly string[]): Promise<void> {
  const done = await run(args);
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
}

function here(name: string): string {
  return join(place, name);
}

/** Serves a model under any name. */
async function withServer(use: (address: string) => Promise<void>): Promise<void> {
  const server = createServer((_, response) => void response.end(Buffer.from(smallGguf())));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.close();
  }
}

/** Commands that write the file %X. */
const WRITERS: readonly (readonly string[])[] = [
  ["convert", "@m.safetensors", "%X", "--to", "gguf"],
  ["convert", "@m.safetensors", "%X", "--to", "aero"],
  ["cat", "@m.safetensors", "model.norm.weight", "-o", "%X"],
  ["ls", "@m.safetensors", "-o", "%X"],
  ["merge", "@m.gguf", "-o", "%X"],
  ["stamp", "@m.gguf", "--set", "a=b", "-o", "%X"],
  ["sign", "@m.gguf", "--key", "@k.key", "-o", "%X"],
  ["sign", "@m.apr", "--key", "@k.key", "-o", "%X"],
  ["correct", "gen", "@m.gguf", "-o", "%X"],
  ["correct", "repair", "@m.gguf", "-o", "%X"],
  ["vault", "cat", "@v", "X", "-o", "%X"],
  ["vault", "create", "%X", "--no-encryption"],
  ["vault", "parity", "@v", "export", "-o", "%X"],
  ["vault", "repair", "@v", "-o", "%X"],
  ["vault", "extract", "@v", "-o", "%."],
  ["extract", "@v", "X", "-o", "%."],
];

describe("a write-protected file", () => {
  it.each(WRITERS.map((args) => [args]))("is not replaced, not even by root: %j", async (args) => {
    writeFileSync(here("X"), "mine");
    chmodSync(here("X"), 0o444);
    const before = lstatSync(here("X")).ino;
    for (const more of [["--force"], ["--force", "--dry-run"]]) {
      const done = await run([...args, ...more]);
      expect({ code: done.code, err: done.err }).toMatchObject({ code: 8 });
      expect(done.err).toContain("source/forbidden");
      expect(readFileSync(here("X"), "utf8")).toBe("mine");
      expect(lstatSync(here("X")).ino).toBe(before);
    }
    expect(readdirSync(place)).toEqual(["X"]);
  });

  it("is not replaced by what a command names itself, nor changed in its place", async () => {
    const cases: readonly (readonly [string, readonly string[]])[] = [
      ["model.norm.weight.bin", ["extract", "@m.safetensors", "-o", "%."]],
      ["m.safetensors.index.json", ["shard", "@m.safetensors", "-o", "%.", "--max-size", "1"]],
      ["k.key", ["keygen", "-o", "%k"]],
      ["m.gguf.sig", ["sign", "%m.gguf", "--key", "@k.key"]],
      ["m.apr", ["sign", "%m.apr", "--key", "@k.key"]],
      ["m.gguf", ["stamp", "%m.gguf", "--set", "general.name=x"]],
      ["m.gguf", ["stamp", "%m.gguf", "--set", "general.name=x", "--rewrite"]],
    ];
    for (const [name, args] of cases) {
      rmSync(place, { recursive: true });
      mkdirSync(place);
      copyFileSync(join(folder, "m.gguf"), here("m.gguf"));
      copyFileSync(join(folder, "m.apr"), here("m.apr"));
      if (!/^m\.(gguf|apr)$/.test(name)) writeFileSync(here(name), "mine");
      chmodSync(here(name), 0o444);
      const before = readFileSync(here(name));
      for (const more of [["--force", "--dry-run"], ["--force"]]) {
        const done = await run([...args, ...more]);
        expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 8 });
        expect(readFileSync(here(name)).equals(before)).toBe(true);
      }
    }
  });

  it("is not replaced by a pull", async () => {
    await withServer(async (address) => {
      writeFileSync(here("m.gguf"), "mine");
      chmodSync(here("m.gguf"), 0o444);
      for (const more of [[], ["--dry-run"], ["--include", "*"]]) {
        const done = await run(["pull", `${address}/m.gguf`, "-o", "%.", "--force", ...more]);
        expect({ code: done.code, err: done.err }).toMatchObject({ code: 8 });
        expect(readFileSync(here("m.gguf"), "utf8")).toBe("mine");
      }
    });
  });
});

describe.each([
  ["is mounted by itself", "EBUSY"],
  ["is append-only", "EPERM"],
])("a file that %s", (_how, errno) => {
  it.each([
    ["convert", "@m.safetensors", "%X", "--to", "safetensors"],
    ["cat", "@m.safetensors", "model.norm.weight", "-o", "%X"],
    ["inspect", "@m.safetensors", "-o", "%X"],
    ["stamp", "%X", "--set", "a=b"],
  ])("is not replaced, and the dry run says so: %s %s %s %s", async (...args) => {
    copyFileSync(join(folder, "m.safetensors"), here("X"));
    protect(errno, here("X"));
    for (const more of [["--force", "--dry-run"], ["--force"]]) {
      const options = args[0] === "stamp" ? more.slice(1) : more;
      const done = await run([...args, ...options], callHere);
      expect({ options, code: done.code, err: done.err }).toMatchObject({ code: 8 });
      expect(readFileSync(here("X")).equals(readFileSync(join(folder, "m.safetensors")))).toBe(true);
    }
    expect(readdirSync(place)).toEqual(["X"]);
  });

  function protect(code: string, path: string): void {
    if (code === "EBUSY") {
      vi.spyOn(mountTable, "read").mockResolvedValue(`63 43 254:0 /x ${path} rw - ext4 /dev/vda rw\n`);
      return;
    }
    const { open } = promises;
    vi.spyOn(promises, "open").mockImplementation((file, flags, mode) => {
      const refused = file === path && flags === constants.O_WRONLY;
      return refused ? Promise.reject(Object.assign(new Error(code), { code })) : open(file, flags, mode);
    });
    syncBuiltinESMExports();
  }
});

afterEach(() => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
});

describe("a link in a folder that a command fills", () => {
  const FILLERS: readonly (readonly [string, readonly string[]])[] = [
    ["model.norm.weight.bin", ["extract", "@m.safetensors", "-o", "%."]],
    ["model.norm.weight.safetensors", ["extract", "@m.safetensors", "-o", "%.", "--as", "safetensors"]],
    ["m.safetensors", ["shard", "@m.safetensors", "-o", "%.", "--max-size", "1GB"]],
    ["m.safetensors.index.json", ["shard", "@m.safetensors", "-o", "%.", "--max-size", "1"]],
    ["m.gguf", ["convert", "@m.safetensors", "%", "--to", "gguf"]],
    ["m.safetensors.index.json", ["convert", "@m.safetensors", "%m.safetensors", "--max-shard-size", "1"]],
    ["X", ["vault", "extract", "@v", "-o", "%."]],
    ["demo.safetensors", ["demo", "%."]],
    ["copy.gguf.sig", ["sign", "%copy.gguf", "--key", "@k.key"]],
    ["copy.gguf.aerocorrect", ["correct", "gen", "%copy.gguf"]],
    ["copy.v.aerocorrect", ["vault", "parity", "%copy.v", "export"]],
  ];

  it.each(FILLERS)("is replaced, and its target kept: %s %j", async (name, args) => {
    for (const target of ["mine", "missing"]) {
      writeFileSync(join(folder, "mine"), "mine");
      copyFileSync(join(folder, "m.gguf"), here("copy.gguf"));
      copyFileSync(join(folder, "v"), here("copy.v"));
      rmSync(here(name), { force: true });
      symlinkSync(join(folder, target), here(name));
      await ok([...args, "--force"]);
      expect(readFileSync(join(folder, "mine"), "utf8")).toBe("mine");
      expect(existsSync(join(folder, "missing"))).toBe(false);
      expect(lstatSync(here(name)).isFile()).toBe(true);
    }
  });

  it("is replaced by a pull", async () => {
    await withServer(async (address) => {
      for (const more of [[], ["--include", "*"]]) {
        writeFileSync(join(folder, "mine"), "mine");
        rmSync(here("m.gguf"), { force: true });
        symlinkSync(join(folder, "mine"), here("m.gguf"));
        await ok(["pull", `${address}/m.gguf`, "-o", "%.", "--force", ...more]);
        expect(readFileSync(join(folder, "mine"), "utf8")).toBe("mine");
        expect(lstatSync(here("m.gguf")).isFile()).toBe(true);
      }
    });
  });
});

it("a file that a pull replaces stays as private", async () => {
  await withServer(async (address) => {
    writeFileSync(here("m.gguf"), "mine");
    chmodSync(here("m.gguf"), 0o600);
    await ok(["pull", `${address}/m.gguf`, "-o", "%.", "--force"]);
    expect(readFileSync(here("m.gguf")).equals(smallGguf())).toBe(true);
    expect(lstatSync(here("m.gguf")).mode & 0o777).toBe(0o600);
  });
});

describe("a folder in the place of a file", () => {
  it.each([
    ["X", ["vault", "extract", "@v", "-o", "%."]],
    ["X", ["extract", "@v", "-o", "%."]],
    ["model.norm.weight.bin", ["extract", "@m.safetensors", "-o", "%."]],
    ["model.embed_tokens.weight.bin", ["extract", "@m.safetensors", "-o", "%."]],
    ["m.safetensors.index.json", ["shard", "@m.safetensors", "-o", "%.", "--max-size", "1"]],
    ["k.pub", ["keygen", "-o", "%k"]],
  ] as const)("is found before anything is written: %s %j", async (name, args) => {
    mkdirSync(here(name));
    for (const more of [["--force", "--dry-run"], ["--force"]]) {
      const done = await run([...args, ...more]);
      expect({ code: done.code, err: done.err }).toMatchObject({ code: 8 });
      expect(done.err).toContain("source/is-directory");
      expect(readdirSync(place)).toEqual([name]);
    }
  });
});
