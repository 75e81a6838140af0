import { UsageError } from "../../src/base/errors.ts";
import { PROFILES } from "../../src/formats/aerovault/write/profiles.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { castTensor } from "../../src/model/values/casts.ts";
import { hasNumbers } from "../../src/model/values/numbers.ts";
import { isBlockType } from "../../src/operations/quantize.ts";
import { upgrade } from "../../src/operations/upgrade.ts";
import { defineCommand } from "../command.ts";
import { allowLossy, runConversion } from "../conversion.ts";
import { EXIT } from "../exit-codes.ts";
import { checkAbsent, outputFileName } from "../output-target.ts";

export const upgradeCommand = defineCommand({
  positionals: { names: ["OLD", "NEW"], min: 2, max: 2 },
  flags: {
    wrap: { kind: "switch", summary: "keep the payload of an APRN container as one tensor of bytes" },
    dequantize: { kind: "switch", summary: "write blocks that APR v2 has no type for as f32" },
    "allow-lossy": { kind: "switch", summary: "go on although something cannot be carried" },
    profile: { kind: "choice", choices: PROFILES, summary: "of a vault: how hard to compress (balanced)" },
    "new-password-file": { kind: "path", value: "FILE", summary: "of a vault: another password than the old one's" },
  },
  details: [
    "OLD is any .apr file that programs have written: aprender's APR1 and what it wraps in compression, whisper.apr's, and the 64-byte layouts of aprender and realizar. NEW follows the APR v2 specification. OLD is checked first, checksum included, and NEW is read back before it gets its name.",
    "Tensors keep their bytes; int8 weights of whisper.apr become f32. Metadata keeps its keys; apr_version, model_type and architecture are added or brought into the form that the specification has, and what they said before goes to source_metadata.",
    "An APRN container has no tensors: --wrap stores its payload, unpacked, as a tensor named payload.",
    "OLD may also be a vault of AeroVault v1 or v2; NEW is then a vault of version 3 with the same files and directories, their times where OLD knows them, and the same password unless --new-password-file names another. Every entry is read back and compared with OLD before NEW gets its name; OLD is not touched.",
  ],
  examples: [
    { command: "tare upgrade old.apr new.apr", says: "an APR1 file in the layout of the specification" },
    { command: "tare upgrade model.aprn.apr new.apr --wrap", says: "keeps what cannot be read" },
    { command: "tare upgrade old.aerovault new.aerovault --password-file pw.txt", says: "an older vault as version 3" },
  ],
  output: "data",
  writes: [1],
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [input = "", path = ""] = positionals;
    await checkAbsent(context, path, { inputs: "rewritten" });
    const opened = await context.open(input);
    if (opened.container.kind === "archive") {
      checkFlags(flags, ["wrap", "dequantize", "allow-lossy"], "a vault");
      const { upgradeVault } = await import("./upgrade-vault.ts");
      const profile = flags.profile ?? "balanced";
      const newPasswordFile = flags["new-password-file"];
      return upgradeVault(context, opened.container, { label: opened.label, path, profile, newPasswordFile });
    }
    checkFlags(flags, ["profile", "new-password-file"], "a model");
    const upgraded = await upgrade(opened, {
      engine: await context.engine(),
      limits: await context.limits(),
      signal: context.signal,
      payload: flags.wrap === true ? "wrap" : undefined,
    });
    await runConversion(context, {
      opened: upgraded,
      target: opened.format,
      path,
      options: {
        name: await outputFileName(path),
        ...(flags.dequantize === true ? { transform: toSpecType } : {}),
        ...allowLossy(flags["allow-lossy"]),
      },
      verify: path === "-" ? undefined : "verify",
    });
    return EXIT.success;
  },
});

/** Refuses flags that mean nothing for what is upgraded: ignoring them would be no answer. */
function checkFlags(flags: Readonly<Record<string, unknown>>, names: readonly string[], what: string): void {
  const name = names.find((one) => flags[one] !== undefined && flags[one] !== false);
  if (name === undefined) return;
  throw new UsageError("usage/arguments", `Cannot use --${name} with ${what}`, { source: "command line" });
}

/** Block types that the specification has ids for; the others become floats. */
const SPEC_BLOCKS: ReadonlySet<string> = new Set(["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]);

function toSpecType(tensor: Tensor): Tensor {
  const stays = SPEC_BLOCKS.has(tensor.dtype) || !isBlockType(tensor) || !hasNumbers(tensor.dtype);
  return stays ? tensor : castTensor(tensor, "F32");
}
