import { UsageError } from "../../src/base/errors.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { readPrivateKey } from "../key-file.ts";
import { signOpened } from "../sign-file.ts";

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
    const seed = await readPrivateKey(flags.key);
    try {
      const opened = await context.open(target);
      const signed = await signOpened(context, opened, { seed, output: context.flags.output });
      const dryRun = context.flags["dry-run"] === true;
      await context.show({
        json: () => ({ dryRun, ...signed }),
        text: () => `${dryRun ? "would write" : "wrote"} ${signed.path}: signed by key ${signed.key}`,
      });
      return EXIT.success;
    } finally {
      seed.fill(0);
    }
  },
});
