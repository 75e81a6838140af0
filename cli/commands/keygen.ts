import { rm, writeFile } from "node:fs/promises";
import { SourceError } from "../../src/base/errors.ts";
import { generateKeys } from "../../src/operations/keys.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { checkAbsent, requireOutput } from "../output-target.ts";

/** Read and write for the owner, nothing for others. */
const PRIVATE_MODE = 0o600;
const PUBLIC_MODE = 0o644;

export const keygenCommand = defineCommand({
  positionals: { names: [], min: 0, max: 0 },
  flags: {},
  details: [
    "Writes NAME.key, the private key that signs (PKCS#8 PEM, readable by you alone), and NAME.pub, the public key that others verify with (SPKI PEM). Both are Ed25519, as openssl writes and reads them.",
    "Keep NAME.key where backups are encrypted: whoever has it can sign in your name. Publish NAME.pub, or its key id.",
  ],
  examples: [{ command: "tare keygen -o release", says: "release.key and release.pub" }],
  output: "data",
  async run(context) {
    const name = requireOutput(context, "the pair: NAME.key and NAME.pub are written");
    const [privatePath, publicPath] = [`${name}.key`, `${name}.pub`] as const;
    await checkAbsent(context, privatePath);
    await checkAbsent(context, publicPath);
    const dryRun = context.flags["dry-run"] === true;
    const pair = await generateKeys(await context.engine());
    if (!dryRun) {
      await writeNew(privatePath, pair.privatePem, PRIVATE_MODE);
      await writeNew(publicPath, pair.publicPem, PUBLIC_MODE);
    }
    await context.show({
      json: () => ({ dryRun, privateKey: privatePath, publicKey: publicPath, ...(dryRun ? {} : { id: pair.id }) }),
      text: () =>
        dryRun
          ? `would write ${privatePath} and ${publicPath}`
          : `wrote ${privatePath} (keep it secret) and ${publicPath}: key ${pair.id}`,
    });
    return EXIT.success;
  },
});

/** Removed first where --force allows it: a file that is only rewritten keeps the mode it had. */
async function writeNew(path: string, text: string, mode: number): Promise<void> {
  try {
    await rm(path, { force: true });
    await writeFile(path, text, { mode, flag: "wx" });
  } catch (cause) {
    throw new SourceError("source/io", `Cannot write "${path}"`, { source: path }, { cause });
  }
}
