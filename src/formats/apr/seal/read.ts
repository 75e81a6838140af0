import type { Bytes } from "../../../base/bytes.ts";
import { IntegrityError, UsageError } from "../../../base/errors.ts";
import { untilAborted } from "../../../bytes/abort.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext } from "../../../model/format.ts";
import { Metadata } from "../../../model/metadata.ts";
import type { GcmKey } from "../../../primitives/cipher/aes.ts";
import { equalSecrets } from "../../../primitives/crypto/hmac.ts";
import { aprLimits } from "../limits.ts";
import { decodeMetadata } from "../metadata.ts";
import { readFront } from "../spec/header.ts";
import { dtypeId, fileHeader } from "../spec/layout.ts";
import { ENCRYPTION_KEY, type Unseal } from "../spec/read.ts";
import { type EncryptionRecord, forgetPasswordKeys, frontKey, frontMac, parseRecord, passwordKey } from "./keys.ts";
import { type Unlocked, UnsealedSource } from "./segments.ts";

/**
 * Opens the encrypted tensors of one file. The first read asks for the password. Before any byte is handed out, header,
 * metadata and index are known to be those that were written.
 */
export function unsealer(source: Source, opening: Bytes, context: OpenContext): Unseal {
  let unlocking: Promise<Unlocked> | undefined;
  const unlock = (): Promise<Unlocked> => {
    unlocking ??= unlockFile(source, opening, context).catch((error: unknown) => {
      unlocking = undefined;
      throw error;
    });
    return unlocking;
  };
  return ({ name, dtype, shape, byteLength, storage }, stored) =>
    new UnsealedSource({
      stored,
      unlock,
      tensor: { name, dtype: dtypeId(dtype) ?? 0, shape, rawSize: byteLength },
      expectedLength: storage === "raw" ? byteLength : undefined,
    });
}

async function unlockFile(source: Source, opening: Bytes, context: OpenContext): Promise<Unlocked> {
  const { engine, signal, password } = context;
  const at = { source: source.label };
  const limits = aprLimits(context.limits);
  const front = await readFront(source, opening, { limits, signal });
  const place = { source: source.label, offset: front.header.metadataOffset, maxValues: limits.metadataValues };
  const metadata = new Metadata(decodeMetadata(front.metadata, place).entries);
  const record = parseRecord(metadata.get(ENCRYPTION_KEY), at);
  const { cost, salt, wrappedKey, fileId } = record;
  const wrapping = await untilAborted(passwordKey({ engine, password, cost, salt, label: source.label }), signal);
  const aes = await engine.aes();
  const fileKey = await aes.unwrapKey(wrapping, wrappedKey);
  if (fileKey === undefined) {
    forgetPasswordKeys(password);
    const message = `Cannot decrypt "${source.label}": the password is wrong, or the wrapped key is damaged`;
    throw new UsageError("usage/password.wrong", message, { ...at, path: `metadata.${ENCRYPTION_KEY}.wrapped_key` });
  }
  try {
    const header = opening.slice(0, fileHeader.byteLength);
    await checkFront(context, { ...front, header }, { record, fileKey, label: source.label });
    const key: GcmKey = await aes.gcm(fileKey);
    return { key, fileId };
  } finally {
    fileKey.fill(0);
  }
}

interface Front {
  readonly header: Bytes;
  readonly metadata: Bytes;
  readonly index: Bytes;
}

interface Keys {
  readonly record: EncryptionRecord;
  readonly fileKey: Bytes;
  readonly label: string;
}

async function checkFront({ engine }: OpenContext, front: Front, { record, fileKey, label }: Keys): Promise<void> {
  const key = await frontKey(engine, fileKey, record.fileId);
  const found = await frontMac(engine, key, front, record.mac);
  if (found !== undefined && equalSecrets(found, record.mac)) return;
  const message = `Cannot trust "${label}": header, metadata or index were changed after the file was encrypted`;
  throw new IntegrityError(
    "integrity/apr.front",
    message,
    { source: label, offset: 0, path: `metadata.${ENCRYPTION_KEY}.mac` },
    {
      hint: "Get another copy of the file",
    },
  );
}
