import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { TypingTerminal } from "../support/typing-terminal.ts";
import { callTare, TARE } from "./run-tare.ts";

const title = TypingTerminal.isPossible()
  ? "prompts for passwords"
  : "prompts for passwords: not tried, install script first (apt-get install bsdutils)";
const OLD = "the first secret";
const NEW = "the second secret";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-prompts-"));
  writeFileSync(join(folder, "old"), OLD);
  writeFileSync(join(folder, "new"), NEW);
  return () => rmSync(folder, { recursive: true });
});

let made = 0;
async function makeVault(): Promise<string> {
  const vault = join(folder, `v${made++}.aerovault`);
  expect(await callTare(["vault", "create", vault, "--password-file", join(folder, "old")])).toMatchObject({ code: 0 });
  return vault;
}

async function opensWith(vault: string, secret: "old" | "new"): Promise<boolean> {
  return (await callTare(["vault", "ls", vault, "--password-file", join(folder, secret)])).code === 0;
}

function tare(args: string, after = ""): TypingTerminal {
  const terminal = new TypingTerminal(`'${process.execPath}' '${TARE}' ${args}${after}`, folder);
  onTestFinished(() => {
    for (const secret of [OLD, NEW]) expect(terminal.seen).not.toContain(secret);
  });
  return terminal;
}

describe.skipIf(!TypingTerminal.isPossible())(title, () => {
  it("both lines of a new password may be pasted at once", async () => {
    const vault = join(folder, "pasted.aerovault");
    const terminal = tare(`vault create '${vault}'`);
    await terminal.shows("Password for");
    terminal.type(`${OLD}\n${OLD}\n`);
    expect(await terminal.ended()).toBe(0);
    expect(await opensWith(vault, "old")).toBe(true);
  });

  it("Ctrl-U clears the line", async () => {
    const vault = await makeVault();
    const terminal = tare(`vault ls '${vault}'`);
    await terminal.shows("Password for");
    terminal.type(`wrong\u0015${OLD}\r`);
    expect(await terminal.ended()).toBe(0);
  });

  it("vault passwd asks for the old password, the new one, and the new one again", async () => {
    const vault = await makeVault();
    const terminal = tare(`vault passwd '${vault}'`);
    await terminal.shows(`Password for ${vault}: `);
    terminal.type(`${OLD}\r`);
    await terminal.shows(`Password for ${vault} (new): `);
    terminal.type(`${NEW}\r`);
    await terminal.shows("The same again: ");
    terminal.type(`${NEW}\r`);
    expect(await terminal.ended()).toBe(0);
    expect(await opensWith(vault, "new")).toBe(true);
  });

  it("vault passwd takes what was typed ahead, and shows none of it", async () => {
    const vault = await makeVault();
    const terminal = tare(`vault passwd '${vault}'`);
    await terminal.shows("Password for");
    terminal.type(`${OLD}\r`);
    // The terminal is quiet while the old password is proven.
    terminal.type(`${NEW}\r${NEW}\r`);
    expect(await terminal.ended()).toBe(0);
    expect(await opensWith(vault, "new")).toBe(true);
  });

  it("vault passwd does not ask for a new password if the old one is wrong", async () => {
    const vault = await makeVault();
    const terminal = tare(`vault passwd '${vault}'`);
    await terminal.shows("Password for");
    terminal.type("not the one\r");
    expect(await terminal.ended()).toBe(11);
    expect(terminal.seen).not.toContain("(new)");
  });

  it.each(["vault create 'short.aerovault'", "vault passwd VAULT"])(
    "a new password that is too short need not be typed twice: %s",
    async (args) => {
      const vault = await makeVault();
      const terminal = tare(args.replace("VAULT", `'${vault}'`));
      await terminal.shows("Password for");
      if (args.includes("passwd")) terminal.type(`${OLD}\r`);
      await terminal.shows(args.includes("passwd") ? "(new): " : "Password for");
      terminal.type("short\r");
      expect(await terminal.ended()).toBe(2);
      expect(terminal.seen).toContain("[usage/vault.password]");
      expect(terminal.seen).not.toContain("The same again");
    },
  );

  it("Ctrl-C ends the command with 130 and gives the terminal back as it was", async () => {
    const vault = await makeVault();
    const terminal = tare(`vault ls '${vault}'`, "; echo code $?; stty -a");
    await terminal.shows("Password for");
    terminal.type("half a sec\u0003");
    await terminal.ended();
    expect(terminal.seen).toContain("code 130");
    expect(terminal.seen).toMatch(/^isig icanon .* echo /ms);
    expect(terminal.seen).not.toContain("half a sec");
  });
});
