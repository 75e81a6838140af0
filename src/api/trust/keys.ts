import type { Bytes } from "../../base/bytes.ts";
import { parsePrivateKey, parsePublicKey } from "../../primitives/crypto/ed25519.ts";
import type { VerbHost } from "../host.ts";
import type { OptionRule } from "../options.ts";
import type { OutputRequest } from "../outputs.ts";

/** PEM text, or PEM or DER bytes; in `tare/node` also the path of a file with one of these. */
export type Key = string | Uint8Array;

export const keyRule: OptionRule = {
  must: "PEM text, or PEM or DER bytes",
  test: (value) => typeof value === "string" || value instanceof Uint8Array,
};

/** The seed of a private key. The caller wipes it. */
export async function privateKeyOf(host: VerbHost, key: Key, options: OutputRequest): Promise<Bytes> {
  const { content, source } = await keyContent(host, key, { name: "key", options });
  return parsePrivateKey(content, source);
}

export async function publicKeyOf(host: VerbHost, key: Key, options: OutputRequest): Promise<Bytes> {
  const { content, source } = await keyContent(host, key, { name: "publicKey", options });
  return parsePublicKey(content, source);
}

/** PEM, or a private key whose frame is missing: taken for a path, it would be repeated in the error. */
const KEY_TEXT = /-----BEGIN |^\s*MC4CAQAwBQYDK2Vw/;

interface NamedOption {
  readonly name: string;
  readonly options: OutputRequest;
}

/** What holds the key, and what errors call it: they never show its content. */
async function keyContent(
  host: VerbHost,
  key: Key,
  { name, options }: NamedOption,
): Promise<{ readonly content: Key; readonly source: string }> {
  if (typeof key !== "string" || KEY_TEXT.test(key)) return { content: key, source: name };
  const disk = await host.disk?.(options);
  return disk === undefined ? { content: key, source: name } : { content: await disk.readKey(key), source: key };
}
