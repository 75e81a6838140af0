import { UsageError } from "../../src/base/errors.ts";
import { allErrors } from "../../src/catalog/index.ts";
import { nearNames } from "../../src/model/model.ts";
import { defineCommand } from "../command.ts";
import { EXIT, exitCodeOfCode } from "../exit-codes.ts";
import { nearest } from "../nearest.ts";
import { renderTable } from "../render/table.ts";
import { wrap } from "../render/text-width.ts";

export const explainCommand = defineCommand({
  positionals: { names: ["CODE"], min: 0, max: 1 },
  flags: {},
  details: ["CODE is what stands in brackets behind an error or a finding. Without it, all codes are listed."],
  examples: [{ command: "tare explain unsupported/lossy", says: "what, why, and what to do" }],
  output: "report",
  async run(context, { positionals }) {
    const errors = allErrors();
    const [code] = positionals;
    const { colors, width } = context;
    if (code === undefined) {
      await context.show({
        json: () => ({ codes: [...errors].map(([key, entry]) => ({ code: key, ...entry })) }),
        text: () => {
          const rows = [...errors].map(([key, entry]) => [{ text: key, style: colors.bold }, entry.what]);
          return renderTable([{}, { cut: "end" }], rows, { width });
        },
      });
      return EXIT.success;
    }
    const key = code.replace(/^\[|\]$/g, "");
    const entry = errors.get(key);
    if (entry === undefined) throw unknownCode(key, [...errors.keys()]);
    const exitCode = entry.severity === undefined ? (exitCodeOfCode(key) ?? EXIT.internal) : null;
    await context.show({
      json: () => ({ code: key, ...entry, exitCode }),
      text: () => {
        const rows = [
          ["what", entry.what],
          ["why", entry.why],
          ["fix", entry.fix],
          ["exit", entry.severity === undefined ? String(exitCode) : `none: it is only ever a ${entry.severity}`],
        ] as const;
        const lines = rows.flatMap(([label, text]) =>
          wrap(text, 72).map((line, i) => `  ${colors.dim((i === 0 ? label : "").padEnd(5))} ${line}`),
        );
        return [colors.bold(key), "", ...lines].join("\n");
      },
    });
    return EXIT.success;
  },
});

function unknownCode(code: string, known: readonly string[]): UsageError {
  const close = nearest(code, known);
  const near = [...new Set([...(close === undefined ? [] : [close]), ...nearNames(code, known)])];
  return new UsageError(
    "usage/unknown-code",
    `Cannot explain "${code}": there is no such code`,
    { source: "command line" },
    {
      hint: near.length === 0 ? "List all codes with: tare explain" : `Did you mean ${near.join(", ")}?`,
    },
  );
}
