import { printable } from "../../../src/base/text.ts";
import { correctFindings, type FileVerdict, healthText } from "../../../src/operations/correct.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { burstText, healthFacts, openProtected, sidecarPath, warnOf } from "./open-files.ts";

export const correctVerifyCommand = defineCommand({
  positionals: { names: ["FILE"], min: 1, max: 1 },
  flags: {
    sidecar: { kind: "path", value: "FILE", summary: "the sidecar, where it is not FILE.aerocorrect" },
  },
  details: [
    "Compares the file with the SHA-256 in its sidecar, and every shard with its checksum. Exits 0 where it is the file that was protected, and 5 where it is not; then it says whether tare correct repair can heal it. Damage in the sidecar alone is a warning.",
  ],
  examples: [{ command: "tare correct verify model.safetensors", says: "with model.safetensors.aerocorrect" }],
  output: "report",
  async run(context, { flags, positionals }) {
    const [path = ""] = positionals;
    const beside = sidecarPath(path, flags.sidecar);
    const { verifyFile } = await import("../../../src/operations/correct.ts");
    await context.expectHashing(path);
    const opened = await openProtected(context, path, beside);
    try {
      const { file, sidecar } = opened;
      const progress = context.progress({ label: "verifying", total: file.byteLength });
      const onProgress = (done: number): void => progress.add(done);
      const engine = await context.engine();
      const verdict = await verifyFile(file, sidecar, { engine, signal: context.signal, onProgress });
      progress.end();
      const findings = correctFindings(path, verdict);
      warnOf(context, findings);
      const { state, byteLength } = verdict;
      const found = file.byteLength;
      await context.show({
        json: () => ({
          file: path,
          sidecar: beside,
          ok: state === "intact",
          state,
          byteLength: found,
          expectedByteLength: byteLength,
          ...healthFacts(verdict),
          findings,
        }),
        text: () => verdictText(context, path, verdict, found),
      });
      return state === "intact" ? EXIT.success : EXIT.integrity;
    } finally {
      await opened.close();
    }
  },
});

function verdictText({ colors }: Context, path: string, verdict: FileVerdict, found: number): string {
  const { state, health, longestBurst, byteLength } = verdict;
  const name = printable(path);
  if (state === "intact")
    return `${colors.green("ok")}: ${name} is the file that was protected; ${burstText(longestBurst)}`;
  const length = found === byteLength ? "" : `${found} bytes instead of ${byteLength}, `;
  const facts = `${length}${healthText(health)}`;
  if (state === "damaged") return `${colors.red("damaged")}: ${name}, ${facts}; tare correct repair can heal it`;
  return `${colors.red("damaged")}: ${name}, ${facts}; that is more than parity can heal, or the sidecar is of another file`;
}
