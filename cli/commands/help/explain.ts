import { explain } from "../../../src/api/help/explain.ts";
import { allErrors } from "../../../src/catalog/index.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { renderTable } from "../../render/table.ts";
import { wrap } from "../../render/text-width.ts";

export const explainCommand = defineCommand({
  positionals: { names: ["CODE"], min: 0, max: 1, words: { CODE: () => [...allErrors().keys()] } },
  flags: {},
  details: ["CODE is what an error or a finding ends with, in brackets. Without it, all codes are listed."],
  examples: [{ command: "tare explain unsupported/lossy", says: "what, why, and what to do" }],
  output: "report",
  async run(context, { positionals }) {
    const result = await explain(...(positionals as [string?]));
    const { colors, width } = context;
    await context.show({
      json: () => result,
      text: () => {
        if ("codes" in result) {
          const rows = result.codes.map(({ code, what }) => [{ text: code, style: colors.bold }, what]);
          return renderTable([{}, { cut: "end" }], rows, { width });
        }
        const { code, what, why, fix, severity, exitCode } = result;
        const exit = severity === undefined ? String(exitCode) : `none: it is only ever a ${severity}`;
        const rows = Object.entries({ what, why, fix, exit });
        const lines = rows.flatMap(([label, text]) =>
          wrap(text, 72).map((line, i) => `  ${colors.dim((i === 0 ? label : "").padEnd(5))} ${line}`),
        );
        return [colors.bold(code), "", ...lines].join("\n");
      },
    });
    return EXIT.success;
  },
});
