import { chmod, lstat, rm, unlink } from "node:fs/promises";
import { encodeUtf8 } from "../../src/base/text.ts";
import type { Sink } from "../../src/bytes/sink.ts";
import { generateKeys } from "../../src/operations/sign.ts";
import { errnoOf, fileError } from "../../src/platform/node/errors.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { checkAbsent, openOutputFile, requireOutput } from "../output-target.ts";

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
      await writePair(context, [
        { path: privatePath, text: pair.privatePem, mode: PRIVATE_MODE },
        { path: publicPath, text: pair.publicPem, mode: PUBLIC_MODE },
      ]);
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

interface KeyFile {
  readonly path: string;
  readonly text: string;
  readonly mode: number;
}

/** Both files or neither: every byte is on the disk before the first of them gets its name. */
async function writePair(context: Context, files: readonly KeyFile[]): Promise<void> {
  const sinks: Sink[] = [];
  const committed: string[] = [];
  try {
    for (const { path, text, mode } of files) {
      if (context.flags.force === true) await prepareReplaced(path, mode);
      const sink = await openOutputFile(context, path, mode);
      sinks.push(sink);
      await sink.append(encodeUtf8(text));
    }
    for (const sink of sinks) {
      await sink.commit();
      committed.push(sink.label);
    }
  } catch (error) {
    for (const sink of sinks.slice(committed.length)) await sink.abort();
    // Half a pair would only be in the way of the next attempt; what replaced another key is left as it is.
    if (context.flags.force !== true) for (const path of committed) await rm(path, { force: true });
    throw error;
  }
}

/** A file that takes the place of another one has its mode, and goes where a link leads: neither is right for a key. */
async function prepareReplaced(path: string, mode: number): Promise<void> {
  try {
    const existing = await lstat(path);
    if (existing.isSymbolicLink()) await unlink(path);
    else if (existing.isFile()) await chmod(path, mode);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot write "${path}"`, { source: path });
  }
}
