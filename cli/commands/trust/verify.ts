import { type Verified, verifyInput } from "../../../src/api/trust/verify.ts";
import { UsageError } from "../../../src/base/errors.ts";
import type { VerifyLevel } from "../../../src/model/format.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { exitCodeOf, exitCodeOfFindings } from "../../exit-codes.ts";
import { readDigestList } from "../../flags/files.ts";
import { commandHost, readOptions } from "../../host.ts";
import { renderReport } from "../../render/look/verification.ts";
import { type Looked, showTargets } from "../../targets/several.ts";

const FLAGS = {
  quick: { kind: "switch", summary: "structure only: what opening checks" },
  control: { kind: "switch", summary: "structure and everything but the tensor data" },
  full: { kind: "switch", summary: "all that the format lets a reader check (the default)" },
  level: {
    kind: "choice",
    choices: ["quick", "control", "full"],
    summary: "the same by name: --level quick is --quick",
  },
  remote: { kind: "switch", summary: "what can be checked without downloading the weights, and what could not" },
  digest: { kind: "choice", choices: ["sha256", "blake3"], summary: "compute and print a digest of every tensor" },
  digests: { kind: "path", value: "FILE", summary: "compare with the digests that --digest --json wrote to FILE" },
  "public-key": { kind: "path", value: "FILE", summary: "demand a signature by this key, SPKI PEM (exit 12)" },
  "require-signature": { kind: "switch", summary: "demand a valid signature, by whatever key (exit 12)" },
  "allow-unsigned": { kind: "switch", summary: "with --public-key: let files without a signature pass" },
} as const;

export const verifyCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: Number.POSITIVE_INFINITY },
  flags: FLAGS,
  details: [
    "Collects findings instead of stopping at the first, and exits with the class of the gravest: 4 where bytes break the format, 5 where something is damaged, 12 where a signature is missing or not to be trusted.",
    "The full check of a file inside a vault reads all its bytes through the vault, which proves every block.",
    "A signature, inside the file or beside it as FILE.sig, is checked by the full check. A key that comes with it proves nothing about who signed: --public-key names the one you trust.",
  ],
  examples: [
    { command: "tare verify model.gguf", says: "everything the format can tell" },
    {
      command: "tare verify model.safetensors --digest sha256 --json > digests.json",
      says: "keep digests of every tensor",
    },
    { command: "tare verify model.safetensors --digests digests.json", says: "is every tensor still the same?" },
    { command: "tare verify models/*.gguf", says: "several models; the exit code is that of the gravest" },
    { command: "tare verify model.apr --public-key release.pub", says: "is it what the publisher signed?" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const level = chooseLevel(flags);
    const digests = flags.digests === undefined ? undefined : await readDigestList(flags.digests, context.signal);
    const options = {
      ...(await readOptions(context)),
      level: flags.remote === true ? undefined : level,
      remote: flags.remote,
      digest: flags.digest,
      digests,
      publicKey: flags["public-key"],
      requireSignature: flags["require-signature"],
      allowUnsigned: flags["allow-unsigned"],
    };
    const look = async (target: string): Promise<Looked> => {
      if (level === "full") await context.expectHashing(target);
      const verified = await verifyInput(commandHost(context), target, options);
      // Scripts get a result for a file that is too damaged to open; people get the error with its hint.
      if (verified.damage !== undefined && context.flags.json !== true) throw verified.damage;
      return lookedAt(target, verified, { context, digests: flags.digest === undefined ? "compared" : "shown" });
    };
    return showTargets(context, { targets: positionals, look });
  },
});

interface Shown {
  readonly context: Context;
  /** With --digests alone they are only compared. */
  readonly digests: "shown" | "compared";
}

function lookedAt(target: string, { result, label, damage }: Verified, { context, digests }: Shown): Looked {
  const shown = digests === "compared" ? { ...result, digests: [] } : result;
  return {
    code: damage === undefined ? exitCodeOfFindings(result.findings) : exitCodeOf(damage),
    json: () => result,
    text: () => renderReport(shown, label ?? target, context),
  };
}

interface LevelFlags {
  readonly quick?: true;
  readonly control?: true;
  readonly full?: true;
  readonly level?: VerifyLevel;
  readonly remote?: true;
}

function chooseLevel(flags: LevelFlags): VerifyLevel {
  const chosen = (["quick", "control", "full", "level", "remote"] as const).filter((name) => flags[name] !== undefined);
  const [only = "full", second] = chosen;
  if (second !== undefined) {
    const message = `Cannot use ${chosen.map((name) => `--${name}`).join(" and ")} together: choose one`;
    throw new UsageError("usage/arguments", message, { source: "command line" });
  }
  if (only === "level") return flags.level ?? "full";
  return only === "remote" ? "control" : only;
}
