import { join } from "node:path";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { DAMAGED, Demo, DIGESTS, demoFiles, FIRST, type Step } from "../../demo/steps.ts";
import { EXIT } from "../../exit-codes.ts";
import { renderTable } from "../../render/table.ts";
import { checkAbsent } from "../../targets/outputs.ts";

export const demoCommand = defineCommand({
  positionals: { names: ["DIR"], min: 0, max: 1 },
  flags: {},
  details: [
    "Makes a small transformer, writes it in every format, inspects, verifies, converts and compares, then damages one byte and finds it. Needs no network; the files are the same every time. DIR is tare-demo where it is not given.",
  ],
  examples: [{ command: "tare demo", says: "about three megabytes for each format, in tare-demo" }],
  output: "data",
  writes: [0],
  async run(context, { positionals }) {
    const [directory = context.flags.output ?? "tare-demo"] = positionals;
    const files = demoFiles();
    const names = [...files.map((file) => file.name), DIGESTS, DAMAGED];
    // npm and npx set this variable, and put tare on the path of what they start, not on the user's.
    const program = context.env["npm_command"] === undefined ? "tare" : "npx tare";
    const commands = commandsToTry(program, directory, files[1]?.name ?? FIRST);
    for (const name of names) await checkAbsent(context, join(directory, name), { links: "replace" });
    if (context.flags["dry-run"] === true) {
      await context.tell({
        json: () => ({ directory, dryRun: true, files: names, steps: [], commands }),
        text: () => names.map((name) => `would write ${join(directory, name)}`).join("\n"),
      });
      return EXIT.success;
    }
    const demo = new Demo(context, directory);
    const steps = await demo.run();
    await context.tell({
      json: () => ({ directory, dryRun: false, files: names, steps, commands }),
      text: () => [demo.screen, "", renderDemo(steps, commands, context)].join("\n"),
    });
    return EXIT.success;
  },
});

function commandsToTry(program: string, directory: string, other: string): readonly string[] {
  const at = (name: string): string => shellWord(join(directory, name));
  return [
    `inspect ${at(other)}`,
    `map ${at(FIRST)}`,
    `stats ${at(FIRST)} "*norm*" --hist 24`,
    `diff ${at(FIRST)} ${at(DAMAGED)} --stats`,
    `verify ${at(DAMAGED)} --digests ${at(DIGESTS)}`,
  ].map((words) => `${program} ${words}`);
}

/** A path as it can be typed: in quotes where a shell would take it apart. */
function shellWord(path: string): string {
  return /^[\w./@%+=:,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

function renderDemo(steps: readonly Step[], commands: readonly string[], context: Context): string {
  const { colors, width } = context;
  const rows = steps.map(({ step, file, result }) => [{ text: step, style: colors.cyan }, file, result]);
  const table = renderTable([{}, {}, { cut: "end" }], rows, { width });
  return [table, "", colors.bold("try"), ...commands.map((command) => `  ${command}`)].join("\n");
}
