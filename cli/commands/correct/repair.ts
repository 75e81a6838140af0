import { realpath } from "node:fs/promises";
import type { Bytes } from "../../../src/base/bytes.ts";
import { IntegrityError } from "../../../src/base/errors.ts";
import { decodeHex, printable } from "../../../src/base/text.ts";
import { correctFindings, type FileRepair, healthText } from "../../../src/operations/correct.ts";
import { fileError } from "../../../src/platform/node/errors.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { checkAbsent, overwriteOf } from "../../output-target.ts";
import { badValue } from "../../quantities.ts";
import { plural } from "../../render/sizes.ts";
import { healthFacts, openProtected, type ProtectedFile, sidecarPath, warnOf } from "./open-files.ts";

export const correctRepairCommand = defineCommand({
  positionals: { names: ["FILE"], min: 1, max: 1 },
  flags: {
    sidecar: { kind: "path", value: "FILE", summary: "the sidecar, where it is not FILE.aerocorrect" },
    "expect-sha256": { kind: "text", value: "HEX", summary: "refuse a sidecar that is not for this content" },
  },
  details: [
    "Heals a file: the damaged shards are computed from the others and parity, and SHA-256 of the whole is compared before the first byte is written. What cannot be healed is left as it is (exit 5). A file that was cut short, or to which something was appended, is brought back to its length.",
    "Only damaged shards are written, in place, each byte of them the right one: an interruption leaves a file that is less damaged. With -o OUT the healed file goes there and FILE stays as it is.",
    "A sidecar brings back what it was made of, whoever made it. Where somebody else could have put one there, --expect-sha256 says what the file must be.",
  ],
  examples: [
    { command: "tare correct repair model.safetensors", says: "in place" },
    { command: "tare correct repair model.gguf --expect-sha256 $(cat model.sha256)", says: "and nothing else" },
  ],
  output: "data",
  async run(context, { flags, positionals }) {
    const [path = ""] = positionals;
    const { output } = context.flags;
    const expected = flags["expect-sha256"] === undefined ? undefined : parseSha256(flags["expect-sha256"]);
    if (output !== undefined) await checkAbsent(context, output);
    const beside = sidecarPath(path, flags.sidecar);
    await context.expectHashing(path);
    const opened = await openProtected(context, path, beside);
    try {
      const repair = await plan(context, opened, expected);
      const findings = correctFindings(path, repair);
      warnOf(context, findings);
      if (repair.state === "lost") throw lost(path, repair);
      const dryRun = context.flags["dry-run"] === true;
      const isWritten = !dryRun && (repair.state === "damaged" || output !== undefined);
      if (isWritten) await write(context, path, opened, repair);
      const repaired = isWritten && repair.state === "damaged";
      const { recoveredShards, byteLength } = repair;
      await context.show({
        json: () => ({
          file: path,
          sidecar: beside,
          dryRun,
          state: repair.state,
          repaired,
          recoveredShards,
          byteLength,
          output: output ?? null,
          ...healthFacts(repair),
          findings,
        }),
        text: () => resultText(path, repair, dryRun ? "dry" : "real"),
      });
      return EXIT.success;
    } finally {
      await opened.close();
    }
  },
});

async function plan(
  context: Context,
  { file, sidecar }: ProtectedFile,
  expected: Bytes | undefined,
): Promise<FileRepair> {
  const [{ planFileRepair }, { groupHealer }] = await Promise.all([
    import("../../../src/operations/correct.ts"),
    import("../../../src/platform/node/correct-runner.ts"),
  ]);
  const progress = context.progress({ label: "examining", total: file.byteLength });
  const onProgress = (done: number): void => progress.add(done);
  const [engine, { signal }] = [await context.engine(), context];
  const healer = groupHealer(file, sidecar.source, { engine, signal });
  const repair = await planFileRepair(file, sidecar, { engine, healer, signal, onProgress }, expected);
  progress.end();
  return repair;
}

async function write(context: Context, path: string, { file }: ProtectedFile, repair: FileRepair): Promise<void> {
  const { repairCopy, repairInPlace } = await import("../../../src/platform/node/repair-file.ts");
  const { output } = context.flags;
  if (output === undefined) {
    const real = await realpath(path).catch((error: unknown) => {
      throw fileError(error, `Cannot repair "${path}"`, { source: path });
    });
    return repairInPlace(real, file, repair);
  }
  const { abortAllSinks } = await import("../../../src/platform/node/file-sink.ts");
  context.onExit(abortAllSinks);
  return repairCopy(path, file, repair, { output, overwrite: overwriteOf(context) });
}

function resultText(path: string, { state, recoveredShards, byteLength }: FileRepair, run: "dry" | "real"): string {
  if (state === "intact") return `${printable(path)}: nothing to repair, it is the file that was protected`;
  const verb = run === "dry" ? "would repair" : "repaired";
  return `${verb} ${printable(path)}: ${plural(recoveredShards, "shard")} recovered, ${byteLength} bytes as they were`;
}

function lost(path: string, { health, sidecar }: FileRepair): IntegrityError {
  const message = `Cannot repair "${path}": ${healthText(health)}, which is more than the parity of "${sidecar.label}" can heal, or it is of another file`;
  const hint = "The file is unchanged; get another copy of it";
  return new IntegrityError("integrity/aerocorrect.lost", message, { source: path }, { hint });
}

function parseSha256(text: string): Bytes {
  const bytes = decodeHex(text.toLowerCase());
  if (bytes?.byteLength === 32) return bytes;
  throw badValue("--expect-sha256", text, "64 hex digits");
}
