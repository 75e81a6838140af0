import { keygenOn } from "../../../src/platform/node/verbs/keygen.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { nodeCommandHost } from "../../node-host.ts";
import { requireOutput } from "../../targets/outputs.ts";

export const keygenCommand = defineCommand({
  positionals: { names: [], min: 0, max: 0 },
  flags: {},
  details: [
    "Writes NAME.key, the private key that signs (PKCS#8 PEM, readable by you alone), and NAME.pub, the public key that others verify with (SPKI PEM). Both are Ed25519, as openssl writes and reads them.",
    "Keep NAME.key where backups are encrypted: anyone who has it can sign in your name. Publish NAME.pub, or its key id.",
  ],
  examples: [{ command: "tare keygen -o release", says: "release.key and release.pub" }],
  output: "data",
  async run(context) {
    const name = requireOutput(context, "the pair: NAME.key and NAME.pub are written");
    const { force, "dry-run": dryRun } = context.flags;
    const result = await keygenOn(await nodeCommandHost(context), name, { force, dryRun });
    const { privateKey, publicKey, id } = result;
    await context.tell({
      json: () => result,
      text: () =>
        result.dryRun
          ? `would write ${privateKey} and ${publicKey}`
          : `wrote ${privateKey} (keep it secret) and ${publicKey}: key ${id}`,
    });
    return EXIT.success;
  },
});
