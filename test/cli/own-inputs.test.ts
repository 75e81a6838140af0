import {
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { COMMANDS } from "../../cli/commands/registry.ts";
import { GLOBAL_FLAGS } from "../../cli/flags/flags.ts";
import { callTare, type Run } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

/** No command replaces a file that it reads, no matter what names that file: an argument, a flag, the environment. */

let folder: string;
let place: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-own-inputs-"));
  env = { XDG_STATE_HOME: join(folder, ".state") };
  writeFileSync(join(folder, "pw"), "correct horse\n");
  writeFileSync(join(folder, "m.safetensors"), smallSafetensors());
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  await ok(["keygen", "-o", `${folder}/k`]);
  await ok(["vault", "create", `${folder}/v`, "--profile", "fast", "--password-file", `${folder}/pw`]);
  // The entry has the name of the file that the tests below protect.
  writeFileSync(join(folder, "X"), "from the vault");
  await ok(["vault", "add", `${folder}/v`, `${folder}/X`, "--password-file", `${folder}/pw`]);
});
beforeEach(() => {
  place = mkdtempSync(join(folder, "place-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** A command whose words that begin with @ are paths in the folder, and with % in the folder of the test. */
function run(args: readonly string[], extra: Readonly<Record<string, string>> = {}): Promise<Run> {
  const named = (word: string): string => word.replace(/^@/, `${folder}/`).replace(/^%/, `${place}/`);
  const more = Object.fromEntries(Object.entries(extra).map(([name, value]) => [name, named(value)]));
  return callTare(args.map(named), { env: { ...env, ...more } });
}

async function ok(args: readonly string[]): Promise<void> {
  const done = await run(args);
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
}

/** The files that flags and variables can name. */
const CONTENTS = {
  password: "correct horse\n",
  json: '{"note": "x"}',
  limits: '{"gguf": {"headerBytes": 1000000}}',
  header: "x-test: 1\n",
  key: undefined,
} as const;

type Content = keyof typeof CONTENTS;
type Case = readonly [Content, readonly string[], Readonly<Record<string, string>>];

/** X is the file that is read, and OUT another name of it. */
const CASES: readonly Case[] = [
  ["password", ["convert", "@m.safetensors", "OUT", "--to", "apr", "--encrypt", "--password-file", "%X"], {}],
  ["password", ["convert", "@m.safetensors", "OUT", "--to", "apr", "--encrypt"], { TARE_PASSWORD_FILE: "%X" }],
  ["password", ["cat", "@m.safetensors", "model.norm.weight", "-o", "OUT"], { TARE_PASSWORD_FILE: "%X" }],
  ["password", ["ls", "@m.safetensors", "-o", "OUT"], { TARE_PASSWORD_FILE: "%X" }],
  ["password", ["vault", "create", "OUT"], { TARE_PASSWORD_FILE: "%X" }],
  ["password", ["vault", "create", "OUT", "--password-file", "%X"], {}],
  ["password", ["vault", "cat", "@v", "X", "-o", "OUT"], { TARE_PASSWORD_FILE: "%X" }],
  ["password", ["vault", "parity", "@v", "export", "-o", "OUT"], { TARE_PASSWORD_FILE: "%X" }],
  ["password", ["vault", "repair", "@v", "-o", "OUT", "--password-file", "%X"], {}],
  ["password", ["stamp", "@m.gguf", "--set", "a=b", "-o", "OUT", "--password-file", "%X"], {}],
  ["json", ["stamp", "@m.gguf", "--from", "%X", "-o", "OUT"], {}],
  ["json", ["convert", "@m.safetensors", "OUT", "--to", "gguf", "--metadata", "%X"], {}],
  ["limits", ["convert", "@m.safetensors", "OUT", "--to", "gguf", "--limits", "%X"], {}],
  ["limits", ["upgrade", "@m.gguf", "OUT", "--limits", "%X"], {}],
  ["limits", ["merge", "@m.gguf", "-o", "OUT", "--limits", "%X"], {}],
  ["limits", ["correct", "gen", "@m.gguf", "-o", "OUT", "--limits", "%X"], {}],
  ["header", ["convert", "@m.safetensors", "OUT", "--to", "gguf", "--header-file", "%X"], {}],
  ["key", ["convert", "@m.safetensors", "OUT", "--to", "apr", "--sign", "%X"], {}],
  ["key", ["sign", "@m.gguf", "--key", "%X", "-o", "OUT"], {}],
  ["json", ["verify", "@m.gguf", "--digests", "%X", "-o", "OUT"], {}],
  ["header", ["convert", "@m.safetensors", "OUT", "--to", "gguf"], { AWS_SHARED_CREDENTIALS_FILE: "%X" }],
  ["password", ["vault", "extract", "@v", "-o", "%."], { TARE_PASSWORD_FILE: "%X" }],
  ["password", ["vault", "extract", "@v", "-o", "%.", "--password-file", "%X"], {}],
  ["password", ["extract", "@v", "-o", "%.", "--password-file", "%X"], {}],
];

function contentOf(kind: Content): string {
  return CONTENTS[kind] ?? readFileSync(join(folder, "k.key"), "utf8");
}

describe("a file that a command reads", () => {
  it.each(CASES)("is not replaced, by any of its names: %s %j %j", async (kind, args, variables) => {
    const content = contentOf(kind);
    writeFileSync(join(place, "X"), content);
    linkSync(join(place, "X"), join(place, "hard"));
    symlinkSync("X", join(place, "soft"));
    mkdirSync(join(place, "sub"));
    const names = args.includes("OUT") ? ["%X", "%hard", "%soft", "%sub/../X"] : ["%X"];
    for (const name of names) {
      for (const more of [["--force"], ["--force", "--dry-run"]]) {
        const done = await run([...args.map((word) => (word === "OUT" ? name : word)), ...more], variables);
        expect({ name, code: done.code, err: done.err }).toMatchObject({ code: 2 });
        expect(done.err).toContain("usage/own-input");
        expect(readFileSync(join(place, "X"), "utf8")).toBe(content);
        expect(readFileSync(join(place, "hard"), "utf8")).toBe(content);
      }
    }
  });

  it("is not replaced by a file that a command names itself", async () => {
    copyFileSync(join(folder, "m.gguf"), join(place, "a.gguf"));
    copyFileSync(join(folder, "k.key"), join(place, "a.gguf.sig"));
    const signed = await run(["sign", "%a.gguf", "--key", "%a.gguf.sig"]);
    expect({ code: signed.code, err: signed.err }).toMatchObject({ code: 2 });
    expect(signed.err).toContain("usage/own-input");
    expect(readFileSync(join(place, "a.gguf.sig"), "utf8")).toBe(contentOf("key"));

    writeFileSync(join(place, "model.norm.weight.bin"), "correct horse\n");
    const file = "%model.norm.weight.bin";
    for (const args of [
      ["extract", "@m.safetensors", "-o", "%.", "--password-file", file],
      ["keygen", "-o", "%b", "--limits", "%b.key"],
      ["correct", "gen", "%a.gguf", "--limits", "%a.gguf.aerocorrect"],
      ["shard", "@m.safetensors", "-o", "%.", "--max-size", "1", "--limits", "%m.safetensors.index.json"],
      ["convert", "@m.safetensors", "%", "--to", "gguf", "--limits", "%m.gguf"],
      ["demo", "%demo", "--limits", "%demo/demo.safetensors"],
    ]) {
      const read = (args.at(-1) as string).replace(/^%/, `${place}/`);
      mkdirSync(join(place, "demo"), { recursive: true });
      writeFileSync(read, "{}");
      const done = await run([...args, "--force"]);
      expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 2 });
      expect(done.err).toContain("usage/own-input");
      expect(readFileSync(read, "utf8")).toBe("{}");
    }
  });

  it("is not replaced if it is one of several files of a model", async () => {
    await ok(["shard", "@m.safetensors", "-o", "%set", "--max-size", "20"]);
    const names = readdirSync(join(place, "set"));
    const index = "%set/m.safetensors.index.json";
    const [first = "", second = ""] = names.filter((name) => name.endsWith(".safetensors")).sort();
    const before = names.map((name) => readFileSync(join(place, "set", name)));
    symlinkSync(second, join(place, "set", "soft"));
    for (const output of [index, `%set/${first}`, `%set/${second}`, "%set/soft"]) {
      for (const args of [
        ["merge", "%set", "-o", output],
        ["merge", index, "-o", output],
        ["merge", index, "-o", output, "--dry-run"],
        ["convert", index, output, "--to", "safetensors"],
        ["convert", index, output, "--to", "gguf"],
        ["dequantize", index, output],
        ["upgrade", index, output],
      ]) {
        const done = await run([...args, "--force"]);
        expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 2 });
        expect(names.map((name) => readFileSync(join(place, "set", name)))).toEqual(before);
        if (args[0] === "merge" || args[0] === "convert") expect(done.err).toContain("usage/own-input");
      }
    }
    // One file may still be replaced by what is made of it.
    copyFileSync(join(folder, "m.safetensors"), join(place, "one.safetensors"));
    await ok(["convert", "%one.safetensors", "%one.safetensors", "--force"]);
    await ok(["convert", "%.", "%one.safetensors", "--force"]);
  });

  it("is not replaced by a pull", async () => {
    const server = createServer((_, response) => void response.end(Buffer.from(smallGguf())));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const address = `http://127.0.0.1:${port}/m.gguf`;
      writeFileSync(join(place, "m.gguf"), CONTENTS.header);
      for (const more of [[], ["--dry-run"], ["--include", "*"]]) {
        const done = await run(["pull", address, "-o", "%.", "--header-file", "%m.gguf", "--force", ...more]);
        expect({ code: done.code, err: done.err }).toMatchObject({ code: 2 });
        expect(done.err).toContain("usage/own-input");
        expect(readFileSync(join(place, "m.gguf"), "utf8")).toBe(CONTENTS.header);
      }
    } finally {
      server.close();
    }
  });

  it("is known for every flag that names a file", async () => {
    const tables = [GLOBAL_FLAGS, ...(await Promise.all(COMMANDS.map(async ({ load }) => (await load()).flags)))];
    for (const [name, flag] of tables.flatMap((table) => Object.entries(table))) {
      const isFile = "value" in flag && /^(FILE|KEY|PATH)$/.test(flag.value);
      expect({ name, kind: isFile ? flag.kind : "path" }).toMatchObject({ kind: expect.stringMatching(/^paths?$/) });
    }
  });
});
