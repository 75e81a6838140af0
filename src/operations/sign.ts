import { type Bytes, concatBytes, equalBytes } from "../base/bytes.ts";
import { FormatError, isTareError, LimitError, type Location, UsageError } from "../base/errors.ts";
import { decodeBase64, decodeHex, decodeUtf8, encodeBase64, encodeHex, encodeUtf8, printable } from "../base/text.ts";
import { checkRelativeName, type Resolver } from "../bytes/resolver.ts";
import type { Container } from "../model/archive.ts";
import type { Sign, Signature, SigningContext } from "../model/capabilities.ts";
import { type Finding, findingFromError, type Severity } from "../model/finding.ts";
import type { Opened } from "../model/format.ts";
import {
  ED25519_PUBLIC_BYTES,
  ED25519_SEED_BYTES,
  ED25519_SIGNATURE_BYTES,
  encodePrivateKey,
  encodePublicKey,
} from "../primitives/crypto/ed25519.ts";
import { type RandomBytes, secureRandom } from "../primitives/crypto/secrets.ts";
import type { Engine } from "../primitives/engine.ts";
import { type JsonNode, parseStrictJson } from "../struct/strict-json.ts";

/** The content of FILE.sig for a container: the SHA-256 of every file that it consists of. */
export async function signBeside(
  container: Container,
  resolver: Resolver,
  context: SigningContext & { readonly sign: Sign },
): Promise<Bytes> {
  const files: SignedFile[] = [];
  for (const name of signedNames(container, resolver)) files.push(await digestFile(name, resolver, context));
  const { message, digest } = await detachedMessage(context.engine, files);
  return encodeDetached({ files, digest, ...(await context.sign(message)) });
}

/** The files of a container as names relative to the first one's folder, sorted and unique. */
export function signedNames(container: Container, resolver: Resolver): string[] {
  const primary = container.parts[0]?.label ?? "";
  const clean = (label: string): string => label.replace(/[?#].*$/s, "").replaceAll("\\", "/");
  const folder = clean(primary).replace(/[^/]*$/, "");
  const names = container.parts.slice(1).map(({ label }) => {
    const path = clean(label);
    const isBelow = path.startsWith(folder) && path.length > folder.length;
    // Sets label their parts by the names in the index, which are already relative.
    if (isBelow || !/^([a-z][a-z0-9+.-]*:|\/)/i.test(path)) {
      const name = isBelow ? path.slice(folder.length) : path;
      checkRelativeName(name, { source: label });
      return name;
    }
    const message = `Cannot sign "${label}" together with "${primary}": all files must lie in one folder`;
    throw new UsageError("usage/signature.parts", message, { source: label });
  });
  return [...new Set([resolver.name, ...names])].sort((a, b) => (a < b ? -1 : 1));
}

/** Length and SHA-256 of a file next to another. */
async function digestFile(name: string, resolver: Resolver, context: SigningContext): Promise<SignedFile> {
  const { engine, signal, onProgress } = context;
  const source = await resolver.resolve(name, { signal });
  try {
    const { byteLength } = source;
    const digest = await engine.digestRange("sha256", source, { offset: 0, byteLength, signal, onProgress });
    return { name, byteLength, sha256: encodeHex(digest) };
  } finally {
    await source.close();
  }
}

export interface SignatureDemands {
  /** The only trusted key; a signature by any other key is an error. */
  readonly publicKey?: Bytes | undefined;
  /** How to treat a missing signature. If absent: "allowed" without `publicKey`, "refused" with it. */
  readonly unsigned?: "allowed" | "refused" | undefined;
}

interface SignatureOptions extends SigningContext, SignatureDemands {
  /** Reaches FILE.sig; without it only signatures inside a file are found. */
  readonly resolver?: Resolver | undefined;
}

/**
 * Checks the signature inside a file, or the one next to it. A key that comes with the signature proves only that
 * nothing has changed since its owner signed. Trust needs `publicKey`.
 */
export async function verifySignature(opened: Opened, options: SignatureOptions): Promise<Finding[]> {
  const { container, format } = opened;
  const inside = await (await format.write?.())?.signing?.read(container, options);
  if (inside !== undefined) return judge(inside, inside.message, inside.at, options);
  const beside = await readBeside(options);
  if (beside === undefined) return missing(opened, options);
  if ("finding" in beside) return [beside.finding];
  const { signature, label } = beside;
  const { message, digest } = await detachedMessage(options.engine, signature.files);
  const findings = await judge(signature, message, { source: label }, options);
  // If the list is forged, the files in it do not matter.
  if (findings.some(({ severity }) => severity === "error")) return findings;
  if (digest !== signature.digest) findings.push(digestFinding(label));
  return [...findings, ...(await compareFiles(opened, signature, label, options))];
}

async function judge(
  { signature, publicKey }: Signature,
  message: Bytes,
  at: Location,
  { engine, publicKey: trusted }: SignatureOptions,
): Promise<Finding[]> {
  const id = await keyId(engine, publicKey);
  if (!(await (await engine.ed25519()).verify(publicKey, message, signature))) {
    const text = `The signature is not valid: key ${id} did not sign what is there now`;
    return [finding("error", "integrity/signature.invalid", text, at)];
  }
  if (trusted === undefined) {
    const text = `Signed by key ${id}, which the signature itself names`;
    const hint = "Pass the option publicKey to make sure that it is the key you trust";
    return [{ ...finding("note", "integrity/signature.valid", text, at), hint }];
  }
  if (equalBytes(trusted, publicKey)) {
    return [finding("note", "integrity/signature.valid", `Signed by the trusted key ${id}`, at)];
  }
  const text = `The signature is by another key: must be ${await keyId(engine, trusted)}, found ${id}`;
  return [finding("error", "integrity/signature.untrusted", text, at)];
}

type Beside = { readonly signature: DetachedSignature; readonly label: string } | { readonly finding: Finding };

async function readBeside({ resolver, signal }: SignatureOptions): Promise<Beside | undefined> {
  if (resolver === undefined) return undefined;
  try {
    const source = await resolver.resolve(signatureName(resolver.name), { signal });
    try {
      // Reads only enough to see that the file is too long.
      const byteLength = Math.min(source.byteLength, (4 << 20) + 1);
      const bytes = await source.read(0, byteLength, { signal });
      return { signature: decodeDetached(bytes, source.label, resolver.name), label: source.label };
    } finally {
      await source.close();
    }
  } catch (error) {
    if (!isTareError(error)) throw error;
    return error.code === "source/not-found" ? undefined : { finding: findingFromError(error) };
  }
}

function missing({ container, format }: Opened, { publicKey, unsigned }: SignatureOptions): Finding[] {
  if ((unsigned ?? (publicKey === undefined ? "allowed" : "refused")) === "allowed") return [];
  const label = container.parts[0]?.label ?? format.id;
  const text = `There is no signature, neither in the file nor beside it as "${signatureName(label)}"`;
  const hint =
    "It may have been removed; get the file from the person who signed it, or accept it with the option allowUnsigned";
  return [{ ...finding("error", "integrity/signature.missing", text, { source: label }), hint }];
}

/** Every listed file must be unchanged, and every file of the model must be listed. */
async function compareFiles(
  { container }: Opened,
  { files }: DetachedSignature,
  label: string,
  options: SignatureOptions,
): Promise<Finding[]> {
  const { resolver } = options;
  if (resolver === undefined) return [];
  const findings: Finding[] = [];
  const listed = new Set(files.map(({ name }) => name));
  for (const name of signedNames(container, resolver)) {
    if (listed.has(name)) continue;
    const text = `"${printable(name)}" is part of the model, but the signature does not cover it`;
    findings.push({ ...finding("error", "integrity/signature.invalid", text, { source: label, path: name }), name });
  }
  for (const wanted of files) {
    const found = await digestFile(wanted.name, resolver, options).catch((error: unknown) => {
      if (!isTareError(error)) throw error;
      findings.push({ ...findingFromError(error), name: wanted.name });
      return undefined;
    });
    if (found === undefined || (found.byteLength === wanted.byteLength && found.sha256 === wanted.sha256)) continue;
    const text = `"${printable(wanted.name)}" was changed after it was signed: must be ${describe(wanted)}, found ${describe(found)}`;
    const at = { source: label, path: wanted.name };
    findings.push({ ...finding("error", "integrity/signature.content", text, at), name: wanted.name });
  }
  return findings;
}

function describe({ byteLength, sha256 }: { readonly byteLength: number; readonly sha256: string }): string {
  return `${byteLength} bytes with SHA-256 ${sha256}`;
}

function digestFinding(label: string): Finding {
  const text = '"digest" is not the SHA-512 of the list of files, though the signature is valid';
  return finding("warning", "format/signature.digest", text, { source: label, path: "digest" });
}

function finding(severity: Severity, code: string, message: string, at: Location): Finding {
  return { severity, code, message, at };
}

/** The value of `format` in files of this version. */
const FORMAT = "tare signature v1";
/** Prefix of the signed message, so that the signature of one kind of file never fits another. */
const CONTEXT = encodeUtf8("tare file signature v1\0");
/** A list of ten thousand shards takes a third of it. */
const MAX_BYTES = 4 << 20;
/** Most values in the JSON: four for each file, and a handful. */
const MAX_VALUES = 100_000;

/** The facts of a signed file. */
interface SignedFile {
  /** Relative to the signature's folder. */
  readonly name: string;
  readonly byteLength: number;
  /** 64 lower-case hex digits. */
  readonly sha256: string;
}

/** The content of FILE.sig. */
interface DetachedSignature extends Signature {
  /** Sorted by name. */
  readonly files: readonly SignedFile[];
  /** SHA-512 of the list in its canonical form, in hex. */
  readonly digest: string;
}

/** The name of the signature of a file. */
export function signatureName(name: string): string {
  return `${name}.sig`;
}

/**
 * The signed message for a list of files: a fixed text, and the SHA-512 of one line per file, in the order of names.
 */
export async function detachedMessage(
  engine: Engine,
  files: readonly SignedFile[],
): Promise<{ readonly message: Bytes; readonly digest: string }> {
  const hasher = await engine.hasher("sha512");
  for (const { name, byteLength, sha256 } of files) hasher.update(encodeUtf8(`${name}\0${byteLength}\0${sha256}\n`));
  const digest = hasher.digest();
  return { message: concatBytes([CONTEXT, digest]), digest: encodeHex(digest) };
}

/** JSON for people: one file per line would be too wide, so it is indented. */
export function encodeDetached({ files, digest, signature, publicKey }: DetachedSignature): Bytes {
  const content = {
    format: FORMAT,
    algorithm: "ed25519",
    files,
    digest,
    publicKey: encodeBase64(publicKey),
    signature: encodeBase64(signature),
  };
  return encodeUtf8(`${JSON.stringify(content, undefined, 2)}\n`);
}

/**
 * Refuses anything that is not exactly such a file. `own` is the name of the file that it belongs to. Does not check
 * whether the signature is right.
 */
export function decodeDetached(bytes: Bytes, source: string, own?: string): DetachedSignature {
  if (bytes.byteLength > MAX_BYTES) {
    const message = `Cannot read the signature: must be at most ${MAX_BYTES} bytes, found ${bytes.byteLength}`;
    throw new LimitError("limit/signature.bytes", message, { source });
  }
  const text = decodeUtf8(bytes);
  if (text === undefined) throw malformed("it must be UTF-8", source);
  const root = members(parseTree(text, source), source, "the document");
  if (textOf(root, "format", source) !== FORMAT) throw malformed(`"format" must be "${FORMAT}"`, source);
  if (textOf(root, "algorithm", source) !== "ed25519") throw malformed('"algorithm" must be "ed25519"', source);
  const list = root.get("files");
  if (list?.type !== "array" || list.items.length === 0) throw malformed('"files" must be a list of files', source);
  const files = list.items.map((item) => fileOf(members(item, source, "a file"), source, own));
  if (files.some(({ name }, i) => i > 0 && name <= (files[i - 1] as SignedFile).name)) {
    throw malformed('"files" must be sorted by name, each once', source);
  }
  const digest = textOf(root, "digest", source);
  return {
    files,
    digest,
    signature: bytesOf(textOf(root, "signature", source), ED25519_SIGNATURE_BYTES, "signature", source),
    publicKey: bytesOf(textOf(root, "publicKey", source), ED25519_PUBLIC_BYTES, "publicKey", source),
  };
}

function parseTree(text: string, source: string): JsonNode {
  try {
    return parseStrictJson(text, { source, offset: 0, what: "signature", maxValues: MAX_VALUES });
  } catch (error) {
    throw isTareError(error) ? malformed(error.message, source) : error;
  }
}

type Members = ReadonlyMap<string, JsonNode>;

function members(node: JsonNode, source: string, what: string): Members {
  if (node.type !== "object") throw malformed(`${what} must be a JSON object`, source);
  return new Map(node.entries);
}

function textOf(object: Members, key: string, source: string): string {
  const node = object.get(key);
  if (node?.type !== "string") throw malformed(`"${key}" must be a string`, source);
  return node.value;
}

function fileOf(object: Members, source: string, own: string | undefined): SignedFile {
  const name = textOf(object, "name", source);
  checkRelativeName(name, { source, path: "files[].name" }, own);
  const length = object.get("byteLength");
  const byteLength = length?.type === "number" && /^[0-9]{1,16}$/.test(length.text) ? Number(length.text) : Number.NaN;
  if (!Number.isSafeInteger(byteLength)) throw malformed('"byteLength" must be a whole number from 0 up', source);
  const sha256 = textOf(object, "sha256", source);
  if (!/^[0-9a-f]{64}$/.test(sha256) || decodeHex(sha256) === undefined) {
    throw malformed('"sha256" must be 64 lower-case hex digits', source);
  }
  return { name, byteLength, sha256 };
}

function bytesOf(text: string, byteLength: number, key: string, source: string): Bytes {
  const bytes = decodeBase64(text);
  if (bytes?.byteLength === byteLength && encodeBase64(bytes) === text) return bytes;
  throw malformed(`"${key}" must be ${byteLength} bytes in base64`, source);
}

function malformed(problem: string, source: string): FormatError {
  return new FormatError(
    "format/signature.file",
    `Cannot read the signature: ${problem}`,
    { source },
    {
      hint: "Make it again with: tare sign TARGET --key FILE",
    },
  );
}

/** A new pair, as the texts of its two files. */
interface KeyPair {
  /** PKCS#8 PEM. A secret. */
  readonly privatePem: string;
  /** SPKI PEM. */
  readonly publicPem: string;
  /** See `keyId`. */
  readonly id: string;
}

/** Makes an Ed25519 pair. */
export async function generateKeys(engine: Engine, random: RandomBytes = secureRandom): Promise<KeyPair> {
  const seed = random(ED25519_SEED_BYTES);
  const publicKey = await (await engine.ed25519()).publicKey(seed);
  const pair = {
    privatePem: encodePrivateKey(seed),
    publicPem: encodePublicKey(publicKey),
    id: await keyId(engine, publicKey),
  };
  seed.fill(0);
  return pair;
}

/** Signs messages with a seed. The caller keeps the seed, and wipes it when done. */
export async function signerOf(engine: Engine, seed: Bytes): Promise<Sign> {
  const ed25519 = await engine.ed25519();
  const publicKey = await ed25519.publicKey(seed);
  return async (message) => ({ signature: await ed25519.sign(seed, message), publicKey });
}

/** The id that people compare: the first 128 bits of the SHA-256 of the public key, in hex. */
export async function keyId(engine: Engine, publicKey: Bytes): Promise<string> {
  return encodeHex((await engine.digest("sha256", publicKey)).subarray(0, 16));
}
