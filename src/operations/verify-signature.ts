import { type Bytes, equalBytes } from "../base/bytes.ts";
import { isTareError, type Location } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Signature, SigningContext } from "../model/capabilities.ts";
import { type Finding, findingFromError, type Severity } from "../model/finding.ts";
import type { Opened } from "../model/format.ts";
import { type DetachedSignature, decodeDetached, detachedMessage, signatureName } from "./detached-signature.ts";
import { keyId } from "./keys.ts";
import { digestFile, signedNames } from "./sign.ts";

export interface SignatureDemands {
  /** The only key that is trusted; a signature by any other one is an error. */
  readonly publicKey?: Bytes | undefined;
  /** What a missing signature is: "allowed" where absent and no key is given, "refused" where one is. */
  readonly unsigned?: "allowed" | "refused" | undefined;
}

export interface SignatureOptions extends SigningContext, SignatureDemands {
  /** Reaches FILE.sig; without it only signatures inside a file are found. */
  readonly resolver?: Resolver | undefined;
}

/**
 * Checks the signature inside a file, or that beside it. A key that comes with the signature proves only that nothing
 * changed since whoever holds it signed: trust needs `publicKey`.
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
  // Which files a false list names is of no interest.
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
    const hint = "Pass --public-key FILE to make sure that it is the key you trust";
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
      // Only so much as shows that there is too much.
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
  const hint = "It may have been removed; get the file from whoever signed it, or accept it with --allow-unsigned";
  return [{ ...finding("error", "integrity/signature.missing", text, { source: label }), hint }];
}

/** Every listed file must be what it was, and every file of the model must be listed. */
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
