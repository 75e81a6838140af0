import type { Command, CommandEntry, CommandGroup } from "./command.ts";
import { COMMANDS } from "./commands/registry.ts";
import { type Flag, type FlagTable, GLOBAL_FLAGS, placeholder } from "./flags/flags.ts";
import type { Colors } from "./render/colors.ts";
import { padEnd, wrap } from "./render/text-width.ts";

/** Help is read at 80 columns, on a terminal or in a pager. */
const WIDTH = 80;

const GROUPS: readonly CommandGroup[] = ["look", "trust", "move", "vault", "embed", "help"];

/** `tare --help`: every command on a line or two. */
export function renderHelp(colors: Colors): string {
  const lines = [
    `${colors.bold("tare")} – open, check, cut up and convert the files that hold model weights`,
    "",
    `${colors.bold("usage")}  tare COMMAND [ARGUMENTS] [FLAGS]`,
  ];
  for (const group of GROUPS) {
    lines.push("");
    const members = COMMANDS.filter((entry) => entry.group === group);
    members.forEach((entry, i) => {
      const label = padEnd(i === 0 ? group : "", 7);
      lines.push(...twoColumns(`${colors.bold(label)}${entry.usage}`, entry.summary, { label, usage: entry.usage }));
    });
  }
  lines.push(
    "",
    ...wrap(
      "TARGET is a path, - for standard input, an http(s) URL, the directory or index of a model in several files, or any of these and ::PATH for a file inside a vault. Content decides the format, never the extension.",
      WIDTH,
    ),
    "",
    "tare COMMAND --help   flags and examples of one command",
    "tare --version        the version",
  );
  return `${lines.join("\n")}\n`;
}

/** `tare GROUP --help`: its verbs. */
export function renderGroupHelp(name: string, colors: Colors): string {
  const lines = [colors.bold(`tare ${name} VERB [ARGUMENTS] [FLAGS]`), ""];
  for (const entry of COMMANDS.filter((command) => command.name.startsWith(`${name} `))) {
    lines.push(...twoColumns(`  ${entry.usage}`, entry.summary, { label: "  ", usage: entry.usage }));
  }
  lines.push("", `tare ${name} VERB --help   flags and examples of one verb`);
  return `${lines.join("\n")}\n`;
}

const USAGE_WIDTH = 31;

/** Usage on the left, summary on the right; a long usage takes a separate line. */
function twoColumns(left: string, right: string, plain: { label: string; usage: string }): string[] {
  const rest = WIDTH - plain.label.length - USAGE_WIDTH;
  const wrapped = wrap(right, rest);
  const indent = " ".repeat(plain.label.length + USAGE_WIDTH);
  if (plain.usage.length >= USAGE_WIDTH) return [left, ...wrapped.map((line) => indent + line)];
  const first = left + " ".repeat(USAGE_WIDTH - plain.usage.length) + (wrapped[0] ?? "");
  return [first, ...wrapped.slice(1).map((line) => indent + line)];
}

/** `tare COMMAND --help`. */
export function renderCommandHelp(entry: CommandEntry, command: Command, colors: Colors): string {
  const lines = [`${colors.bold(`tare ${entry.usage}`)}`, "", ...wrap(sentence(entry.summary), WIDTH)];
  for (const paragraph of command.details) lines.push("", ...wrap(paragraph, WIDTH));
  if (entry.aliases.length > 0) lines.push("", `also known as: ${entry.aliases.map((alias) => alias.name).join(", ")}`);
  if (Object.keys(command.flags).length > 0) lines.push("", colors.bold("flags"), ...flagLines(command.flags));
  if (command.examples.length > 0) lines.push("", colors.bold("examples"), ...exampleLines(command, colors));
  lines.push("", colors.bold("flags of every command"), ...flagLines(GLOBAL_FLAGS));
  return `${lines.join("\n")}\n`;
}

function exampleLines(command: Command, colors: Colors): string[] {
  return command.examples.flatMap(({ command: text, says }) => [`  ${text}`, `      ${colors.dim(says)}`]);
}

function flagLines(table: FlagTable): string[] {
  const names = Object.entries(table).map(([name, flag]) => flagLabel(name, flag));
  const width = Math.min(26, Math.max(...names.map((label) => label.length)));
  return Object.values(table).flatMap((flag, i) => {
    const label = names[i] as string;
    const wrapped = wrap(flag.summary, WIDTH - width - 4);
    const indent = " ".repeat(width + 4);
    const first =
      label.length > width ? [`  ${label}`, indent + wrapped[0]] : [`  ${padEnd(label, width)}  ${wrapped[0]}`];
    return [...first, ...wrapped.slice(1).map((line) => indent + line)];
  });
}

function flagLabel(name: string, flag: Flag): string {
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  const value = placeholder(flag);
  return `${short}--${name}${value === "" ? "" : ` ${value}`}`;
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
