import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import { encodeHex } from "../base/text.ts";
import { checkRelativeName, type Resolver } from "../bytes/resolver.ts";
import type { Container } from "../model/archive.ts";
import type { Sign, SigningContext } from "../model/capabilities.ts";
import { detachedMessage, encodeDetached, type SignedFile } from "./detached-signature.ts";

/** The content of FILE.sig for a container: every file that it consists of, by SHA-256. */
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

/** The files of a container as names relative to the first one's folder, sorted, each once. */
export function signedNames(container: Container, resolver: Resolver): string[] {
  const primary = container.parts[0]?.label ?? "";
  const clean = (label: string): string => label.replace(/[?#].*$/s, "").replaceAll("\\", "/");
  const folder = clean(primary).replace(/[^/]*$/, "");
  const names = container.parts.slice(1).map(({ label }) => {
    const path = clean(label);
    const isBelow = path.startsWith(folder) && path.length > folder.length;
    // Sets label their parts as the index names them, which is relative already.
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

/** Length and SHA-256 of a file beside another. */
export async function digestFile(name: string, resolver: Resolver, context: SigningContext): Promise<SignedFile> {
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
