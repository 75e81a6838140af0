import { chmod, lstat, rm, unlink } from "node:fs/promises";
import { checkOptions, type OptionRules, WRITE_RULES } from "../../../api/options.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Sink } from "../../../bytes/sink.ts";
import { generateKeys } from "../../../operations/sign.ts";
import { checkFilePlace } from "../destinations.ts";
import { errnoOf, fileError } from "../errors.ts";
import { type FileSinkOptions, fileSink } from "../files/sink.ts";
import { type NodeHost, nodeHost } from "../host.ts";
import { checkPath } from "../paths.ts";

/** Options of `keygen`: the command's flags. */
export interface KeygenOptions {
  /** Replaces keys that have the names. */
  readonly force?: boolean | undefined;
  /** Makes every decision and writes nothing. */
  readonly dryRun?: boolean | undefined;
}

/** What `tare keygen --json` prints. */
export interface KeygenResult {
  readonly dryRun: boolean;
  /** Path of the private key. */
  readonly privateKey: string;
  /** Path of the public key. */
  readonly publicKey: string;
  /** Absent in a dry run, which makes no key. */
  readonly id?: string | undefined;
}

const RULES: OptionRules = { force: WRITE_RULES.force, dryRun: WRITE_RULES.dryRun };

/** Read and write for the owner, nothing for others. */
const PRIVATE_MODE = 0o600;
const PUBLIC_MODE = 0o644;

/** Makes a pair of Ed25519 keys: NAME.key, which signs, and NAME.pub, which others verify with. */
export function keygen(output: string | URL, options?: KeygenOptions): Promise<KeygenResult> {
  return keygenOn(nodeHost(), output, options);
}

export async function keygenOn(
  host: NodeHost,
  output: string | URL,
  options: KeygenOptions = {},
): Promise<KeygenResult> {
  checkOptions("keygen", options, RULES);
  const name = checkPath("keygen", "output", output);
  const [privateKey, publicKey] = [`${name}.key`, `${name}.pub`] as const;
  const overwrite = options.force === true ? "replace" : "refuse";
  for (const path of [privateKey, publicKey]) await checkFilePlace(path, host.inputs, { overwrite });
  if (options.dryRun === true) return { dryRun: true, privateKey, publicKey };
  const pair = await generateKeys(await host.engine({}));
  await writePair(overwrite, [
    { path: privateKey, text: pair.privatePem, mode: PRIVATE_MODE },
    { path: publicKey, text: pair.publicPem, mode: PUBLIC_MODE },
  ]);
  return { dryRun: false, privateKey, publicKey, id: pair.id };
}

interface KeyFile {
  readonly path: string;
  readonly text: string;
  readonly mode: number;
}

/** Writes both files or neither: every byte is on the disk before the first file gets its name. */
async function writePair(overwrite: FileSinkOptions["overwrite"], files: readonly KeyFile[]): Promise<void> {
  const sinks: Sink[] = [];
  const committed: string[] = [];
  try {
    for (const { path, text, mode } of files) {
      if (overwrite === "replace") await prepareReplaced(path, mode);
      const sink = await fileSink(path, { overwrite, newMode: mode });
      sinks.push(sink);
      await sink.append(encodeUtf8(text));
    }
    for (const sink of sinks) {
      await sink.commit();
      committed.push(sink.label);
    }
  } catch (error) {
    for (const sink of sinks.slice(committed.length)) await sink.abort();
    // Half a pair would only block the next attempt. A file that replaced another key stays.
    if (overwrite === "refuse") for (const path of committed) await rm(path, { force: true });
    throw error;
  }
}

/** A replacement keeps the mode of the old file and follows a link; both are wrong for a key. */
async function prepareReplaced(path: string, mode: number): Promise<void> {
  try {
    const existing = await lstat(path);
    if (existing.isSymbolicLink()) await unlink(path);
    else if (existing.isFile()) await chmod(path, mode);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot write "${path}"`, { source: path });
  }
}
