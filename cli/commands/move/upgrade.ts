import { upgrade } from "../../../src/api/move/upgrade.ts";
import { formatSize, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { PROFILES } from "../../../src/operations/vault/index.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { showConversion } from "../../render/conversion.ts";
import { readPassword, withPasswordFile } from "../../terminal/password.ts";

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
    const [input = "", output = ""] = positionals;
    const { wrap, dequantize, profile, "allow-lossy": allowLossy, "new-password-file": file } = flags;
    const other = withPasswordFile(context, file);
    const result = await upgrade(commandHost(context), input, output, {
      ...(await writeOptions(context)),
      ...{ wrap, dequantize, profile, allowLossy },
      password: (label) => readPassword(context, label, { use: "open" }),
      newPassword: file === undefined ? undefined : (label) => readPassword(other, label, { use: "open" }),
    });
    const { tensorCount, entryCount = 0, dryRun, byteLength } = result;
    if (tensorCount !== undefined) await showConversion(context, { ...result, tensorCount }, output);
    else {
      const what = `${printable(output)}: AeroVault 3, ${plural(entryCount, "entry", "entries")}`;
      await context.tell({
        json: () => result,
        text: () =>
          dryRun ? `would write ${what}` : `wrote ${what}, ${formatSize(byteLength)}; every entry was compared`,
      });
    }
    return EXIT.success;
  },
});
