import { type SignResult, sign, signOpened as signInput } from "../../../src/api/trust/sign.ts";
import type { Bytes } from "../../../src/base/bytes.ts";
import { UsageError } from "../../../src/base/errors.ts";
import type { OpenedTarget } from "../../../src/platform/node/targets.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";

export const signCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: {
    key: { kind: "path", value: "FILE", summary: "the private key, PKCS#8 PEM: NAME.key of tare keygen" },
  },
  details: [
    "An APR file is written again with the signature inside, in its place or to -o OUT. Every other format, and a set of files, gets FILE.sig beside it, which lists each file with its SHA-256.",
    "Signing again replaces the signature that was there. Check with: tare verify TARGET --public-key NAME.pub",
  ],
  examples: [
    { command: "tare sign model.safetensors --key release.key", says: "writes model.safetensors.sig" },
    { command: "tare sign model.apr --key release.key -o signed.apr", says: "leaves model.apr as it is" },
  ],
  output: "data",
  async run(context, { flags, positionals }) {
    const [target = ""] = positionals;
    if (flags.key === undefined) {
      const message = 'Cannot run "sign" without --key: must name a private key file';
      const hint = "Make one with: tare keygen -o NAME";
      throw new UsageError("usage/arguments", message, { source: "command line" }, { hint });
    }
    const { key } = flags;
    const { output } = context.flags;
    const result = await sign(commandHost(context), target, { ...(await writeOptions(context)), key, output });
    await context.tell({
      json: () => result,
      text: () => `${result.dryRun ? "would write" : "wrote"} ${result.path}: signed by key ${result.key}`,
    });
    return EXIT.success;
  },
});

/** Signs what is open already, in its place or beside it. The caller wipes the seed. */
export async function signOpened(
  context: Context,
  opened: OpenedTarget,
  { seed }: { readonly seed: Bytes },
): Promise<SignResult> {
  const request = { ...(await writeOptions(context)), engine: await context.engine() };
  return signInput({ host: commandHost(context), input: opened.label, opened, request }, { seed });
}
