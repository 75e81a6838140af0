import { type Bytes, concatBytes } from "../base/bytes.ts";
import { FormatError, isTareError, LimitError } from "../base/errors.ts";
import { decodeBase64, decodeHex, decodeUtf8, encodeBase64, encodeHex, encodeUtf8 } from "../base/text.ts";
import { checkRelativeName } from "../bytes/resolver.ts";
import type { Signature } from "../model/capabilities.ts";
import { ED25519_PUBLIC_BYTES, ED25519_SIGNATURE_BYTES } from "../primitives/crypto/ed25519.ts";
import type { Engine } from "../primitives/engine.ts";
import { type JsonNode, parseStrictJson } from "../struct/strict-json.ts";

/** What `format` says in files of this version. */
const FORMAT = "tare signature v1";
/** In front of what is signed, so that the signature of one kind of file never fits another. */
const CONTEXT = encodeUtf8("tare file signature v1\0");
/** A list of ten thousand shards takes a third of it. */
const MAX_BYTES = 4 << 20;
/** Values of the JSON: four for each file, and a handful. */
const MAX_VALUES = 100_000;

/** A file as a signature knows it. */
export interface SignedFile {
  /** Relative to the signature's folder. */
  readonly name: string;
  readonly byteLength: number;
  /** 64 lower-case hex digits. */
  readonly sha256: string;
}

/** The content of FILE.sig. */
export interface DetachedSignature extends Signature {
  /** Sorted by name. */
  readonly files: readonly SignedFile[];
  /** SHA-512 of the list in its canonical form, in hex. */
  readonly digest: string;
}

/** The name of the signature of a file. */
export function signatureName(name: string): string {
  return `${name}.sig`;
}

/** What is signed for a list of files: a fixed text, and the SHA-512 of a line for each, in the order of names. */
export async function detachedMessage(
  engine: Engine,
  files: readonly SignedFile[],
): Promise<{ readonly message: Bytes; readonly digest: string }> {
  const hasher = await engine.hasher("sha512");
  for (const { name, byteLength, sha256 } of files) hasher.update(encodeUtf8(`${name}\0${byteLength}\0${sha256}\n`));
  const digest = hasher.digest();
  return { message: concatBytes([CONTEXT, digest]), digest: encodeHex(digest) };
}

/** JSON for people: one file a line would be too wide, so it is spread out. */
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

/** Refuses anything that is not exactly such a file. `own` is the name of the file that it belongs to. Whether the signature is right is not looked at. */
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
