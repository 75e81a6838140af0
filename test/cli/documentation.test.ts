import { readdirSync, readFileSync } from "node:fs";
import picocolors from "picocolors";
import { describe, expect, it } from "vitest";
import { COMMANDS, loadCommands } from "../../cli/commands/registry.ts";
import { EXIT } from "../../cli/exit-codes.ts";
import { GLOBAL_FLAGS } from "../../cli/flags/flags.ts";
import { renderCommandHelp, renderHelp } from "../../cli/help.ts";
import { allErrors } from "../../src/catalog/index.ts";

const plain = picocolors.createColors(false);
const documentation = readFileSync(new URL("../../docs/cli.md", import.meta.url), "utf8");

describe("docs/cli.md", () => {
  it("has every command, alias and flag", async () => {
    const missing: string[] = [];
    for (const { entry, command } of await loadCommands()) {
      const section = documentation.split(/^## /m).find((text) => text.startsWith(`tare ${entry.name}\n`));
      if (section === undefined) missing.push(entry.name);
      for (const name of Object.keys(command.flags))
        if (!section?.includes(`\`--${name}`)) missing.push(`${entry.name} --${name}`);
      for (const alias of entry.aliases) if (!documentation.includes(`\`${alias.name}`)) missing.push(alias.name);
    }
    for (const name of Object.keys(GLOBAL_FLAGS)) if (!documentation.includes(`\`--${name}`)) missing.push(`--${name}`);
    expect(missing).toEqual([]);
  });

  it("has every exit code", () => {
    const codes = Object.values(EXIT).filter((code) => !new RegExp(`^\\| ${code} \\|`, "m").test(documentation));
    expect(codes).toEqual([]);
  });
});

describe("help", () => {
  it("fits eighty columns", async () => {
    const pages = [renderHelp(plain)];
    for (const { entry, command } of await loadCommands()) pages.push(renderCommandHelp(entry, command, plain));
    const long = pages
      .flatMap((page) => page.split("\n"))
      .filter((line) => [...line].length > 80 && !line.startsWith("  tare "));
    expect(long).toEqual([]);
  });

  it("names every command", () => {
    const help = renderHelp(plain);
    for (const entry of COMMANDS) expect(help).toMatch(new RegExp(`(^|\\s)${entry.name}(\\s|$)`, "m"));
  });
});

it("every code that the command line throws is explained", async () => {
  const known = allErrors();
  const folder = new URL("../../cli/", import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    /(?<!\.test)\.ts$/.test(name),
  );
  const codes = files.flatMap((name) => {
    const text = readFileSync(new URL(name, folder), "utf8");
    return [...text.matchAll(/"((?:format|limit|integrity|unsupported|source|usage|internal)\/[a-z0-9.-]+)"/g)].map(
      (match) => match[1] as string,
    );
  });
  expect(codes.length).toBeGreaterThan(15);
  expect(codes.filter((code) => !known.has(code))).toEqual([]);
});
