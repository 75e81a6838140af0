import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { encodeUtf8 } from "../../src/base/text.ts";
import { mountTable } from "../../src/platform/node/files/partial-files.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { callHere, type Run } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

/** Vaults that can be read and must not be written to: mounted by themselves, or write-protected. */

let folder: string;
let vault: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-protected-"));
  vault = join(folder, "v.aerovault");
  writeFileSync(at("pw"), VAULT_PASSWORD);
  writeFileSync(at("a.txt"), "mine\n");
  writeFileSync(at("m.gguf"), smallGguf());
  writeFileSync(at("old"), await craftVault1([{ path: "a.txt", bytes: encodeUtf8("old") }]));
  await ok("vault", "create", at("fresh"), "--no-encryption", "--parity", "20%");
  await ok("vault", "add", at("fresh"), at("a.txt"));
});
beforeEach(() => {
  copyFileSync(at("fresh"), vault);
  chmodSync(vault, 0o600);
});
afterEach(() => {
  vi.restoreAllMocks();
  const known = /^(pw|a\.txt|m\.gguf|old|fresh|state)$/;
  for (const name of readdirSync(folder)) if (!known.test(name)) rmSync(at(name), { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true }));

function at(name: string): string {
  return join(folder, name);
}

function run(...args: readonly string[]): Promise<Run> {
  return callHere(args, { env: { XDG_STATE_HOME: at("state") } });
}

async function ok(...args: readonly string[]): Promise<Run> {
  const done = await run(...args);
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  return done;
}

/** Every way to write to a vault. VAULT and other words in capitals are paths. */
const WRITERS: readonly (readonly string[])[] = [
  ["vault", "add", "VAULT", "A"],
  ["vault", "mkdir", "VAULT", "d"],
  ["vault", "rm", "VAULT", "a.txt"],
  ["vault", "mv", "VAULT", "a.txt", "b.txt"],
  ["vault", "cp", "VAULT", "a.txt", "b.txt"],
  ["vault", "compact", "VAULT"],
  ["vault", "passwd", "VAULT", "--new-password-file", "PW"],
  ["vault", "passwd", "VAULT", "--rekey", "--new-password-file", "PW"],
  ["vault", "parity", "VAULT", "embed"],
  ["vault", "parity", "VAULT", "strip", "--force"],
  ["vault", "repair", "VAULT"],
  ["vault", "create", "VAULT", "--force", "--no-encryption"],
  ["upgrade", "OLD", "VAULT", "--force", "--password-file", "PW"],
  ["convert", "M", "VAULT::x.gguf"],
  ["convert", "M", "VAULT::x.gguf", "--force"],
  ["cat", "M", "token_embd.weight", "-o", "VAULT::x.bin"],
  ["ls", "M", "-o", "VAULT::ls.txt"],
];

function typed(args: readonly string[]): string[] {
  const paths: Readonly<Record<string, string>> = { A: at("a.txt"), PW: at("pw"), OLD: at("old"), M: at("m.gguf") };
  return args.map((word) => paths[word] ?? word.replace(/^VAULT/, vault));
}

function mountVault(): void {
  const line = (point: string): string => `63 43 254:0 /somewhere ${point} rw,relatime - ext4 /dev/vda rw\n`;
  const table = `${line("/")}${line(vault.replaceAll(" ", "\\040"))}`;
  vi.spyOn(mountTable, "read").mockResolvedValue(table);
}

const PROTECTIONS = [
  { how: "mounted by itself", protect: mountVault, code: 6, error: "unsupported/vault.mount" },
  { how: "write-protected", protect: () => chmodSync(vault, 0o444), code: 8, error: "source/forbidden" },
] as const;

describe.each(PROTECTIONS)("a vault that is $how", ({ protect, code, error }) => {
  it.each(WRITERS)("is not written to, dry or not: %s %s %s %s", async (...args) => {
    protect();
    for (const more of [[], ["--dry-run"]]) {
      const refused = await run(...typed(args), ...more);
      expect({ more, code: refused.code, err: refused.err }).toMatchObject({ code });
      expect(refused.err).toContain(`[${error}]`);
      expect(refused.err).toContain(vault);
      expect(readFileSync(vault).equals(readFileSync(at("fresh")))).toBe(true);
    }
    expect(readdirSync(folder).filter((name) => name.includes("v.aerovault"))).toEqual(["v.aerovault"]);
  });

  it("is not written to by the name of a link either", async () => {
    symlinkSync(vault, at("link"));
    protect();
    const refused = await run("vault", "mkdir", at("link"), "d");
    expect({ code: refused.code, err: refused.err }).toMatchObject({ code });
    expect(refused.err).toContain(`[${error}]`);
  });

  it("is read, exported and repaired into a copy as any other", async () => {
    protect();
    expect((await ok("vault", "cat", vault, "a.txt")).out).toBe("mine\n");
    await ok("vault", "scrub", vault);
    await ok("vault", "parity", vault, "export", "-o", at("side"));
    await ok("vault", "repair", vault, "-o", at("copy"), "--dry-run");
    await ok("vault", "repair", vault, "-o", at("copy"));
    expect(readFileSync(at("copy")).equals(readFileSync(vault))).toBe(true);
  });

  it("is healed into a copy, and stays as it is", async () => {
    const bytes = readFileSync(vault);
    bytes.fill(0xff, bytes.indexOf("mine"), bytes.indexOf("mine") + 3);
    writeFileSync(vault, bytes);
    protect();
    const healed = await ok("vault", "repair", vault, "-o", at("copy"), "--json");
    expect(JSON.parse(healed.out)).toMatchObject({ state: "damaged", repaired: true });
    expect(readFileSync(at("copy")).equals(readFileSync(at("fresh")))).toBe(true);
    expect(readFileSync(vault).equals(bytes)).toBe(true);
  });
});

describe.runIf(process.platform !== "win32")("a pipe in the place of a vault", () => {
  it.each([
    ...WRITERS,
    ["vault", "parity", "VAULT", "export", "-o", "VAULT.side"],
    ["vault", "repair", "VAULT", "-o", "VAULT.copy"],
  ])("is refused at once, dry or not: %s %s %s %s", async (...args) => {
    rmSync(vault);
    execFileSync("mkfifo", [vault]);
    for (const more of [[], ["--dry-run"]]) {
      const refused = await run(...typed(args), ...more);
      expect({ more, code: refused.code, err: refused.err }).toMatchObject({ code: 2 });
      expect(refused.err).toContain("[usage/not-a-file]");
    }
    expect(readdirSync(folder).filter((name) => name.includes("v.aerovault"))).toEqual(["v.aerovault"]);
  });
});
