import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext } from "../../../model/format.ts";
import { AprModel } from "../apr-model.ts";
import { specDetails } from "../spec/details.ts";
import { FILE_FLAGS } from "../spec/layout.ts";
import { openSpec, type Unseal } from "../spec/open.ts";
import { ENCRYPTION_KEY } from "./encryption-key.ts";

/** Opens a file of the specification's layout, encrypted or not. Needs no password: only reading tensors does. */
export async function openSealable(source: Source, opening: Bytes, context: OpenContext): Promise<AprModel> {
  const loadUnseal = async (): Promise<Unseal> => (await import("./unsealer.ts")).unsealer(source, opening, context);
  const model = await openSpec(source, opening, context, { loadUnseal });
  if (!isSealed(model)) return model;
  const details = specDetails(model);
  const open = details.entries.find(({ sealing, size }) => sealing === "plain" && size > 0);
  if (open !== undefined && model.metadata.get(ENCRYPTION_KEY) !== undefined) {
    // Otherwise somebody without the password could put a tensor of their own among the encrypted ones.
    const message = `Cannot read APR: every tensor of an encrypted file must be encrypted, found "${printable(open.name)}" in clear`;
    throw new FormatError("format/apr.unsealed-tensor", message, { source: source.label, offset: open.at });
  }
  const { layout, version, parts, metadata, tensors, warnings, facts } = model;
  const told = [...facts.slice(1), ["encryption", "AES-256-GCM, Argon2id"] as const];
  return new AprModel({
    ...{ layout, version, parts, tensors, warnings, details },
    // How the file is encrypted is no part of the model: what is converted must not say that it is.
    metadata: metadata.without(ENCRYPTION_KEY),
    facts: told,
  });
}

/** True where the header says that tensors are encrypted. */
export function isSealed(model: AprModel): boolean {
  return model.layout === "spec" && FILE_FLAGS.has(specDetails(model).header.flags, "ENCRYPTED");
}
