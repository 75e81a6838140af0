import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, isTareError, type Location } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { OpenContext } from "../../model/format.ts";
import type { ReadableBytes } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { ReadFile } from "./block-stream.ts";
import { checkManifest } from "./check-manifest.ts";
import { ChunkStore } from "./chunk-store.ts";
import { decodeManifest } from "./decode-manifest.ts";
import { extensionPayload, MANIFEST_PARITY } from "./extension-payload.ts";
import { decodeDirectory, type ExtensionRow } from "./extensions.ts";
import { manifestSeal, type Room, VaultCipher } from "./framing.ts";
import { checkSections, readHeader, type StoredHeader, sectionsEnd } from "./header.ts";
import { type VaultKeys, wipeKeys } from "./keys.ts";
import { AEROVAULT_LIMITS, type AerovaultLimits } from "./limits.ts";
import { type Manifest, maxChunkBytes } from "./manifest.ts";
import type { QuickReading } from "./quick-reading.ts";
import { readControl, type StoredManifest } from "./stored-manifest.ts";
import { unlock } from "./unlock.ts";
import type { HealedPart, Vault } from "./vault.ts";
import { VaultArchive } from "./vault-archive.ts";

/** Some hundred entries: those of a shorter one are read as soon as what finds them is loaded. */
const LONG_MANIFEST = 64 << 10;

/** Opens a vault as an archive: header, manifest and extension directory are read, nothing else. */
export async function openAerovault(source: Source, context: OpenContext): Promise<VaultArchive> {
  return new VaultArchive(await openVault(source, context));
}

/** What a vault that is damaged may be opened with. */
export interface OpeningHelp {
  /** Parity of the manifest beside the vault: asked where the vault's own does not help. */
  readonly manifestParity?: ReadableBytes | undefined;
}

/**
 * Opens a vault. In this order: what the header alone shows to be wrong, the extension directory, the password, the
 * header's HMAC, the manifest's tag, what the manifest says. Closing the result closes `source`; a failure does not.
 */
export async function openVault(source: Source, context: OpenContext, help: OpeningHelp = {}): Promise<Vault> {
  const at = { source: source.label, offset: 0 };
  const limits = resolveLimits("aerovault", AEROVAULT_LIMITS, context.limits);
  const header = await readHeader(source, { signal: context.signal });
  checkSections(header.values, source.byteLength, limits, at);
  const { directory, manifest } = await readControl(source, header, context.signal);
  const extensions = readExtensions(directory, header, limits, at);
  const { engine, password, encryption } = context;
  let loading: Promise<QuickReading | undefined> | undefined;
  const meanwhile = (): void => {
    manifest.begin?.();
    loading = loadQuick(header);
    VaultCipher.prepare(engine).catch(() => undefined); // told when there are keys
  };
  const keys = await unlock(header, { engine, password, encryption, meanwhile }, at);
  try {
    const cipher = await VaultCipher.create(engine, keys);
    const opened = { source, header, keys, cipher, extensions, limits };
    return await completeVault(opened, manifest, {
      ...help,
      engine,
      quick: await (loading ?? loadQuick(header)),
    });
  } catch (error) {
    wipeKeys(keys);
    throw error;
  }
}

/** For a manifest that is worth it. */
async function loadQuick({ values }: StoredHeader): Promise<QuickReading | undefined> {
  if (values.manifestLength < LONG_MANIFEST) return undefined;
  return (await import("./quick-reading.ts")).loadQuickReading();
}

type UnreadVault = Omit<Vault, "manifest" | "manifestSeal" | "chunks" | "warnings" | "healed">;

/** What reads a manifest, and heals it. */
interface ManifestTools extends OpeningHelp {
  readonly engine: Engine;
  readonly quick: QuickReading | undefined;
}

async function completeVault(opened: UnreadVault, stored: StoredManifest, tools: ManifestTools): Promise<Vault> {
  const { source, header, keys, cipher, limits } = opened;
  const { engine } = tools;
  const { manifest, manifestSeal, warnings, healed } = await openOrHeal(opened, stored, tools);
  const bounds = {
    dataLength: header.values.dataLength,
    maxBlockBytes: limits.blockBytes,
    maxChunkBytes: maxChunkBytes(manifest, limits.chunkBytes),
  };
  const chunks = new ChunkStore({ source, engine, cipher, bounds });
  const all = [...findTrailing(header, source), ...warnings];
  return { ...opened, keys, manifest, manifestSeal, chunks, warnings: all, healed };
}

interface JudgedManifest {
  readonly manifest: Manifest;
  readonly manifestSeal: Bytes;
  readonly warnings: readonly Finding[];
}

/** A manifest that is not the one that was written is healed by the vault's own parity, where it has some; never in silence. */
async function openOrHeal(
  opened: UnreadVault,
  stored: StoredManifest,
  tools: ManifestTools,
): Promise<JudgedManifest & { readonly healed: readonly HealedPart[] }> {
  const { source, header, extensions } = opened;
  const { engine, manifestParity } = tools;
  const { manifestOffset: offset } = header.values;
  const parity = extensionPayload(MANIFEST_PARITY, { rows: extensions, header: header.values, read: readerOf(source) });
  const blob = await stored.take();
  try {
    return { ...(await judgeManifest(opened, { blob, room: stored.room }, parity, tools)), healed: [] };
  } catch (error) {
    if (!isTareError(error)) throw error;
    const damaged = await stored.take();
    const { healedVersions } = await import("./manifest-parity.ts");
    for (const payload of [parity, manifestParity]) {
      if (payload === undefined) continue;
      for await (const bytes of healedVersions(engine, damaged, payload)) {
        const judged = await judgeManifest(opened, { blob: bytes, room: "new" }, payload, tools).catch(ifNotTare);
        if (judged === undefined) continue;
        const origin = payload === parity ? undefined : ("sidecar" as const);
        const healed = { name: "manifest", offset, bytes, origin } as const;
        return { ...judged, warnings: [...judged.warnings, healedWarning(healed, source.label)], healed: [healed] };
      }
    }
    throw error;
  }
}

/** Faults of a candidate only mean that it is not the one. */
function ifNotTare(error: unknown): undefined {
  if (!isTareError(error)) throw error;
}

interface SealedManifest {
  readonly blob: Bytes;
  readonly room: Room;
}

async function judgeManifest(
  opened: UnreadVault,
  { blob, room }: SealedManifest,
  parity: ReadableBytes | undefined,
  { engine, quick }: ManifestTools,
): Promise<JudgedManifest> {
  const { source, header, keys, cipher, limits } = opened;
  const seal = manifestSeal(blob); // before it is decrypted in its place
  const manifest = openManifest({ blob, room }, { cipher, keys, header, label: source.label, limits, quick });
  const at = { source: source.label, offset: header.values.manifestOffset };
  if (keys.lane !== "plain") return { manifest, manifestSeal: seal, warnings: [] };
  const { checkPlainManifest } = await import("./plain-manifest.ts");
  const warnings = await checkPlainManifest(engine, { blob, manifest }, parity, at);
  return { manifest, manifestSeal: seal, warnings };
}

/** Healing is told wherever the vault is opened. */
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
  readonly quick: QuickReading | undefined;
}

/** Decrypts, parses and judges the manifest. */
function openManifest(
  { blob, room }: SealedManifest,
  { cipher, keys, header, label, limits, quick }: ManifestKeys,
): Manifest {
  const at = { source: label, offset: header.values.manifestOffset };
  const json = cipher.openManifest(blob, room);
  if (json === undefined) {
    const message = "Cannot trust the manifest of the vault: its tag must match, and does not";
    const hint = "The header is whole, so the password is right; get another copy of the vault";
    throw new IntegrityError("integrity/aerovault.manifest", message, at, { hint });
  }
  // A byte of the text stands as far behind the nonce in the file as behind the start of the text.
  const manifest = decodeManifest(json, { ...at, offset: at.offset + cipher.plainOffset }, quick);
  checkManifest(manifest, keys.lane, limits, at);
  return manifest;
}

function findTrailing({ values }: StoredHeader, source: Source): Finding[] {
  const end = sectionsEnd(values);
  const stray = source.byteLength - end;
  if (stray === 0) return [];
  const message = `${stray} bytes follow behind the last section and belong to nothing`;
  return [
    { severity: "warning", code: "format/aerovault.trailing", message, at: { source: source.label, offset: end } },
  ];
}
