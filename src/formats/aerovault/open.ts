import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, isTareError, type Location } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { inTurns, type Steps } from "../../base/turns.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { OpenContext, PasswordSource } from "../../model/format.ts";
import type { ReadableBytes } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";
import { VaultArchive } from "./archive.ts";
import { ChunkStore } from "./blocks/store.ts";
import type { ReadFile } from "./blocks/stream.ts";
import { sealOf, VaultCipher } from "./cipher.ts";
import { decodeDirectory, type ExtensionRow, extensionPayload, MANIFEST_PARITY } from "./extensions/rows.ts";
import { checkCurrent, explainFault } from "./freshness.ts";
import { checkSections, readHeader, type StoredHeader, sectionsEnd } from "./header.ts";
import { unlock, type VaultKeys, wipeKeys } from "./keys.ts";
import { AEROVAULT_LIMITS, type AerovaultLimits } from "./limits.ts";
import { checkManifest } from "./manifest/check.ts";
import { checkPlainManifest } from "./manifest/checksum.ts";
import { decodeManifest } from "./manifest/codec.ts";
import { type CutEntries, loadCutEntries } from "./manifest/fast-entries.ts";
import { healedVersions } from "./manifest/parity.ts";
import { type Manifest, maxChunkBytes } from "./manifest/records.ts";
import type { HealedPart, Vault } from "./vault.ts";

/** Opens a vault as an archive: reads header, manifest and extension directory, nothing else. */
export async function openAerovault(source: Source, context: OpenContext): Promise<VaultArchive> {
  return new VaultArchive(await openVault(source, context));
}

/** Outside help for opening: for a damaged vault, or for one whose keys are known. */
export interface OpeningHelp {
  /** Parity of the manifest beside the vault, used if the vault's own parity does not help. */
  readonly manifestParity?: ReadableBytes | undefined;
  /** A copy of the keys of a vault that was opened before, instead of its password. */
  readonly keys?: (() => VaultKeys) | undefined;
}

/**
 * Opens a vault. The checks run in this order: the header alone, the extension directory, the password, the header's
 * HMAC, the manifest's tag, the manifest's content. Closing the result closes `source`; a failure does not.
 */
export async function openVault(source: Source, context: OpenContext, help: OpeningHelp = {}): Promise<Vault> {
  const header = await readHeader(source, { signal: context.signal });
  try {
    return await openBehind(source, header, context, help);
  } catch (error) {
    throw await explainFault(error, { source, header });
  }
}

async function openBehind(
  source: Source,
  header: StoredHeader,
  context: OpenContext,
  help: OpeningHelp,
): Promise<Vault> {
  const at = { source: source.label, offset: 0 };
  const limits = resolveLimits("aerovault", AEROVAULT_LIMITS, context.limits);
  checkSections(header.values, source.byteLength, limits, at);
  const control = await readControl(source, header, context.signal);
  const extensions = readExtensions(control.directory, header, limits, at);
  const { engine, encryption } = context;
  let ahead: ManifestReading | undefined;
  // Deriving keys takes long, on other threads if there are any. Meanwhile this thread reads ahead.
  const readOn = (): void => {
    ahead = readAhead(control, header);
    VaultCipher.prepare(engine).catch(() => undefined); // reported once there are keys
  };
  const password = context.password && andThen(context.password, readOn);
  const keys = await unlock(header, { engine, password, encryption, signal: context.signal, keys: help.keys }, at);
  let cipher: VaultCipher | undefined;
  try {
    cipher = await VaultCipher.create(engine, keys);
    const opened = { source, header, keys, cipher, extensions, limits };
    const { manifest, cutEntries } = ahead ?? readAhead(control, header);
    const tools = { ...help, engine, cutEntries: await cutEntries, signal: context.signal };
    return await completeVault(opened, await manifest, tools);
  } catch (error) {
    cipher?.wipe();
    wipeKeys(keys);
    throw error;
  }
}

type UnreadVault = Omit<Vault, "manifest" | "manifestSeal" | "chunks" | "warnings" | "healed">;

/** What reading and healing a manifest needs. */
interface ManifestTools extends OpeningHelp {
  readonly engine: Engine;
  readonly cutEntries: CutEntries | undefined;
  readonly signal: AbortSignal | undefined;
}

async function completeVault(opened: UnreadVault, stored: Bytes, tools: ManifestTools): Promise<Vault> {
  const { source, header, keys, cipher, limits } = opened;
  const { engine } = tools;
  const { manifest, manifestSeal, warnings, healed } = await openOrHeal(opened, stored, tools);
  const bounds = {
    dataLength: header.values.dataLength,
    maxBlockBytes: limits.blockBytes,
    maxChunkBytes: maxChunkBytes(manifest, limits.chunkBytes),
  };
  const state = { source, header, manifestSeal, healed };
  const explain = (error: unknown): Promise<unknown> => explainFault(error, state);
  const chunks = new ChunkStore({ source, engine, cipher, bounds, explain });
  const all = [...findTrailing(header, source), ...warnings];
  return { ...opened, keys, manifest, manifestSeal, chunks, warnings: all, healed };
}

interface JudgedManifest {
  readonly manifest: Manifest;
  readonly manifestSeal: Bytes;
  readonly warnings: readonly Finding[];
}

/** If the manifest is not the one that was written, the vault's own parity heals it if it can, never silently. */
async function openOrHeal(
  opened: UnreadVault,
  stored: Bytes,
  tools: ManifestTools,
): Promise<JudgedManifest & { readonly healed: readonly HealedPart[] }> {
  const { source, header, extensions } = opened;
  const { engine, manifestParity } = tools;
  const { manifestOffset: offset } = header.values;
  const parity = extensionPayload(MANIFEST_PARITY, { rows: extensions, header: header.values, read: readerOf(source) });
  try {
    return { ...(await judgeManifest(opened, stored, parity, tools)), healed: [] };
  } catch (error) {
    if (!isTareError(error)) throw error;
    // Parity of another state heals nothing.
    await checkCurrent({ source, header });
    for (const payload of [parity, manifestParity]) {
      if (payload === undefined) continue;
      for await (const bytes of healedVersions(engine, stored, payload)) {
        const judged = await judgeManifest(opened, bytes, payload, tools).catch(ifNotTare);
        if (judged === undefined) continue;
        const origin = payload === parity ? undefined : ("sidecar" as const);
        const healed = { name: "manifest", offset, bytes, origin } as const;
        return { ...judged, warnings: [...judged.warnings, healedWarning(healed, source.label)], healed: [healed] };
      }
    }
    throw error;
  }
}

/** An error of ours only means that this candidate is not the right one. */
function ifNotTare(error: unknown): undefined {
  if (!isTareError(error)) throw error;
}

async function judgeManifest(
  opened: UnreadVault,
  blob: Bytes,
  parity: ReadableBytes | undefined,
  { engine, cutEntries, signal }: ManifestTools,
): Promise<JudgedManifest> {
  const { source, header, keys, cipher, limits } = opened;
  const seal = sealOf(blob);
  const steps = openManifest(blob, { cipher, keys, header, label: source.label, limits, cutEntries });
  const manifest = await inTurns(steps, signal);
  const at = { source: source.label, offset: header.values.manifestOffset };
  const warnings = keys.lane === "plain" ? await checkPlainManifest(engine, { blob, manifest }, parity, at) : [];
  return { manifest, manifestSeal: seal, warnings };
}

/** Healing is reported whenever the vault is opened. */
export function healedWarning({ name, offset }: HealedPart, label: string): Finding {
  const message = `The ${name} of the vault is damaged, and was read as it should be`;
  const hint = "The file is unchanged: run tare vault repair";
  return { severity: "warning", code: "integrity/aerovault.healed", message, at: { source: label, offset }, hint };
}

function readerOf(source: Source): ReadFile {
  return (offset, byteLength) => source.read(offset, byteLength);
}

function readExtensions(
  bytes: Bytes,
  { values }: StoredHeader,
  limits: AerovaultLimits,
  at: Location,
): readonly ExtensionRow[] {
  const place = { ...at, offset: values.extensionDirectoryOffset };
  return decodeDirectory(bytes, place, {
    payloadLength: values.extensionPayloadLength,
    maxRows: limits.extensions,
  });
}

interface ManifestKeys {
  readonly cipher: VaultCipher;
  readonly keys: VaultKeys;
  readonly header: StoredHeader;
  readonly label: string;
  readonly limits: AerovaultLimits;
  readonly cutEntries: CutEntries | undefined;
}

/** Decrypts, parses and judges the manifest. */
function* openManifest(
  blob: Bytes,
  { cipher, keys, header, label, limits, cutEntries }: ManifestKeys,
): Steps<Manifest> {
  const at = { source: label, offset: header.values.manifestOffset };
  const json = cipher.openManifest(blob);
  if (json === undefined) {
    const message = "Cannot trust the manifest of the vault: its tag must match, and does not";
    const hint = "The header is whole, so the password is right; get another copy of the vault";
    throw new IntegrityError("integrity/aerovault.manifest", message, at, { hint });
  }
  // The text starts after the nonce, so offsets in the text are shifted by the same amount in the file.
  const manifest = yield* decodeManifest(json, { ...at, offset: at.offset + cipher.plainOffset }, cutEntries);
  yield* checkManifest(manifest, keys.lane, limits, at);
  return manifest;
}

function findTrailing({ values }: StoredHeader, source: Source): Finding[] {
  const end = sectionsEnd(values);
  const stray = source.byteLength - end;
  if (stray === 0) return [];
  const message = `${stray} bytes follow the last section and belong to nothing`;
  return [
    { severity: "warning", code: "format/aerovault.trailing", message, at: { source: source.label, offset: end } },
  ];
}

/** A password source that calls `next` once it has an answer. */
function andThen(password: PasswordSource, next: () => void): PasswordSource {
  return async (label) => {
    const secret = await password(label);
    if (secret !== undefined) next();
    return secret;
  };
}

/** A manifest that is being read, and the reader of its entries. */
interface ManifestReading {
  readonly manifest: Promise<Bytes>;
  readonly cutEntries: Promise<CutEntries | undefined>;
}

/** Failures are reported when the result is awaited. If the keys fail first, nothing awaits it. */
function readAhead(control: ControlBytes, header: StoredHeader): ManifestReading {
  const reading = { manifest: control.readManifest(), cutEntries: loadCut(header) };
  for (const promise of Object.values(reading)) promise.catch(() => undefined);
  return reading;
}

/** Some hundred entries. The entries of a shorter manifest are read in the time that loading the fast reader takes. */
const LONG_MANIFEST = 64 << 10;

/** Only for a manifest that is long enough. */
async function loadCut({ values }: StoredHeader): Promise<CutEntries | undefined> {
  if (values.manifestLength < LONG_MANIFEST) return undefined;
  return loadCutEntries().catch(() => undefined);
}

/** Directory and manifest are usually neighbours: a gap of up to this many bytes is read too, to save a request. */
const NEAR_BYTES = 64 << 10;

/** Some thousand entries: reading this much takes long enough to do other work meanwhile. */
const LONG_BYTES = 1 << 20;

/** The sections that describe the content of a vault, as stored in the file. */
export interface ControlBytes {
  readonly directory: Bytes;
  /** Reads a long manifest; a short one came with the directory. */
  readManifest(): Promise<Bytes>;
}

/** Reads the directory, and with it the manifest unless it is long. */
async function readControl(
  source: Source,
  header: StoredHeader,
  signal: AbortSignal | undefined,
): Promise<ControlBytes> {
  const { manifestOffset, manifestLength, extensionDirectoryOffset, extensionDirectoryLength } = header.values;
  const gap = extensionDirectoryOffset - (manifestOffset + manifestLength);
  if (manifestLength >= LONG_BYTES || gap < 0 || gap > NEAR_BYTES) {
    const directory = await source.read(extensionDirectoryOffset, extensionDirectoryLength, { signal });
    return { directory, readManifest: () => source.read(manifestOffset, manifestLength, { signal }) };
  }
  const bytes = await source.read(manifestOffset, manifestLength + gap + extensionDirectoryLength, { signal });
  return {
    directory: bytes.subarray(manifestLength + gap),
    readManifest: async () => bytes.subarray(0, manifestLength),
  };
}
