import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadCommands } from "../../cli/commands/registry.ts";
import { completedProgram } from "../../cli/completion/words.ts";
import { hasShell, offeredByBash, offeredByFish, pressTab, type Shell, titleFor } from "../support/shells.ts";
import { callTare } from "./run-tare.ts";

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-completion-"));
  for (const name of ["v.aerovault", "m.gguf", "sp ace.gguf"]) writeFileSync(join(folder, name), "");
  for (const shell of ["bash", "zsh", "fish"]) {
    const made = await callTare(["completion", shell]);
    expect(made).toMatchObject({ code: 0, err: "" });
    writeFileSync(join(folder, `.tare.${shell}`), made.out);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

const scriptOf = (shell: Shell): string => join(folder, `.tare.${shell}`);

/** What is typed before Tab, and what the last word is then. */
const ROWS: readonly (readonly [line: string, last: string])[] = [
  ["tare ins", "inspect"],
  ["tare vault ls v", "v.aerovault"],
  ["tare vault list v", "v.aerovault"],
  ["tare vault add v.aerovault m", "m.gguf"],
  ["tare vault pari", "parity"],
  ["tare vault parity v.aerovault exp", "export"],
  ["tare vault parity v.aerovault::x exp", "export"],
  ["tare vault parity --lock-timeout 3s v.aerovault exp", "export"],
  ["tare correct gen m", "m.gguf"],
  ["tare correct gen m.gguf --parity quart", "quartile"],
  ["tare inspect sp", "sp ace.gguf"],
  ["tare quantize m.gguf x.gguf -t q8", "q8_0"],
  ["tare dequantize m.gguf x.gguf -t bf", "bf16"],
  ["tare dequantize m.gguf x.gguf --type q4", "q4"],
  ["tare convert m.gguf x --to safe", "safetensors"],
  ["tare convert m.gguf x --to=safe", "--to=safetensors"],
  ["tare convert m.gguf x --page-hashes --layout apr", "aprender"],
  ["tare convert m.gguf x --voc", "--vocab"],
  ["tare vault create x --profile arch", "archive"],
  ["tare cache cl", "clear"],
  ["tare aeroset up", "update"],
  ["tare aeroset update m", "m.gguf"],
  ["tare explain internal/b", "internal/bug"],
  ["tare completion z", "zsh"],
  ["tare help dequ", "dequantize"],
  ["tare -q --color never vault cre", "create"],
  ["tare vault --color never cre", "create"],
  ["tare verify m.gguf --password-file v", "v.aerovault"],
  ["tare vault passwd v.aerovault --rek", "--rekey"],
  ["tare vault passwd v.aerovault --recu", "--recu"],
  ["tare embed m.gguf --heads m", "m"],
  ["tare ls m.gguf -- --js", "--js"],
];

it("offers a flag of every command once, also where a command has words of its own for it", async () => {
  const { commands, flags } = completedProgram(await loadCommands());
  const everywhere = new Set(flags.flatMap(({ names }) => names));
  for (const command of commands) {
    const again = command.flags.flatMap(({ names }) => names).filter((name) => everywhere.has(name));
    expect(again, command.name).toEqual([]);
  }
});

describe.each(["bash", "zsh"] as const)("completion by Tab %s", (shell) => {
  it.skipIf(!hasShell(shell))(titleFor(shell), () => {
    const typed = pressTab(
      shell,
      folder,
      scriptOf(shell),
      ROWS.map(([line]) => line),
    );
    // Zsh puts "=" after the name of a flag that takes a value, and takes it away again.
    const rows = ROWS.map(([line], i) => [line, typed[i]?.replace(/^(--[a-z-]+)=$/, "$1")]);
    expect(rows).toEqual(ROWS.map((row) => [...row]));
  });
});

describe("completion by Tab fish", () => {
  it.skipIf(!hasShell("fish"))(titleFor("fish"), () => {
    const offered = offeredByFish(
      folder,
      scriptOf("fish"),
      ROWS.map(([line]) => line),
    );
    for (const [i, [line, last]] of ROWS.entries()) {
      const isLeft = line.endsWith(` ${last}`);
      const seen = offered[i] ?? [];
      if (isLeft) expect({ line, seen }).toEqual({ line, seen: [] });
      else expect({ line, seen }).toEqual({ line, seen: expect.arrayContaining([last]) });
    }
  });
});

/** Every command with every flag, and what must be offered for it: exactly that. */
async function everything(): Promise<{ readonly line: string; readonly offered: readonly string[] }[]> {
  const { commands, flags, groups } = completedProgram(await loadCommands());
  const shared = flags.flatMap(({ names }) => names);
  const cases = commands.flatMap(({ name, aliases, flags: own, arguments: all }) => {
    const values = [...own, ...flags].flatMap(({ names, completed, value }) =>
      completed.kind !== "words" || value?.use === "optional"
        ? []
        : names.map((flag) => ({ line: `tare ${name} ${flag} `, offered: completed.words })),
    );
    const choices = all.flatMap(({ completed }, place) =>
      completed.kind === "words" ? [{ line: `tare ${name} ${"x ".repeat(place)}`, offered: completed.words }] : [],
    );
    const names = [name, ...aliases].map((one) => ({
      line: `tare ${one} -`,
      offered: [...own.flatMap((flag) => flag.names), ...shared],
    }));
    return [...names, ...values, ...choices];
  });
  const verbs = groups.map((group) => ({
    line: `tare ${group} `,
    offered: commands
      .filter(({ name }) => name.startsWith(`${group} `))
      .flatMap(({ name, aliases }) => [name, ...aliases].map((one) => one.slice(group.length + 1))),
  }));
  return [...cases, ...verbs];
}

describe("every command, flag and choice of the registry", () => {
  const sorted = (words: readonly string[] | undefined): string[] => [...new Set(words)].sort();

  it.skipIf(!hasShell("bash"))(titleFor("bash"), async () => {
    const cases = await everything();
    expect(cases.length).toBeGreaterThan(200);
    const lines = cases.map(({ line }) => line);
    const offered = offeredByBash(folder, scriptOf("bash"), lines);
    const seen = cases.map(({ line }, i) => [line, sorted(offered[i])]);
    expect(seen).toEqual(cases.map((one) => [one.line, sorted(one.offered)]));
  });

  it.skipIf(!hasShell("fish"))(titleFor("fish"), async () => {
    const cases = await everything();
    const lines = cases.map(({ line }) => line);
    const offered = offeredByFish(folder, scriptOf("fish"), lines);
    const seen = cases.map(({ line }, i) => [line, sorted(offered[i])]);
    expect(seen).toEqual(cases.map((one) => [one.line, sorted(one.offered)]));
  });

  it("in zsh's script", async () => {
    const { commands } = completedProgram(await loadCommands());
    const { out } = await callTare(["completion", "zsh"]);
    for (const { name, flags } of commands) {
      const start = out.indexOf(`    "${name}"`);
      expect({ name, start }).not.toMatchObject({ start: -1 });
      const own = out.slice(start, out.indexOf(" ;;", start));
      for (const flag of flags.flatMap(({ names }) => names)) expect(own).toContain(`${flag}`);
    }
  });
});
