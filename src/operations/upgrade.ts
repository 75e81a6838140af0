import type { Bytes } from "../base/bytes.ts";
import { type ErrorCatalog, FormatError, IntegrityError, UnsupportedError, UsageError } from "../base/errors.ts";
import { ComputedSource } from "../bytes/computed.ts";
import { checkRange } from "../bytes/extents.ts";
import { memorySource } from "../bytes/memory.ts";
import type { ReadOptions, Source } from "../bytes/source.ts";
import { AprModel } from "../formats/apr/apr-model.ts";
import { readAprnPayload } from "../formats/apr/wild/aprn.ts";
import { WhisperDetails } from "../formats/apr/wild/whisper.ts";
import type { OpenContext, Opened } from "../model/format.ts";
import { type MetadataEntry, stringValue } from "../model/metadata.ts";
import { Tensor } from "../model/tensor.ts";
import type { Engine } from "../primitives/engine.ts";
import { upgradeMetadata } from "./upgrade-metadata.ts";
import { verify } from "./verify.ts";

export interface UpgradeOptions {
  readonly engine: Engine;
  readonly limits: OpenContext["limits"];
  readonly signal?: AbortSignal | undefined;
  /** Keeps the payload of an APRN container as a tensor of bytes, since nothing else can be made of it. */
  readonly payload?: "wrap" | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * The same model as the APR v2 specification has it, to be written by its format: required keys added, int8 weights of
 * whisper.apr as floats. The old file is checked first, checksum included: damage is not carried into a new file.
 */
export async function upgradeApr(opened: Opened, options: UpgradeOptions): Promise<Opened> {
  const model = requireOld(opened);
  if (model.layout === "aprn" && options.payload === undefined) throw needsWrap(labelOf(model));
  await checkSound(opened, options);
  const { tensors, replaced, added } = await upgradeTensors(model, options);
  const extra = added.reduce((metadata, { key, value }) => metadata.with(key, value), model.metadata);
  const container = new AprModel({
    layout: model.layout,
    version: model.version,
    parts: model.parts,
    metadata: upgradeMetadata(extra, replaced),
    tensors,
    warnings: model.warnings,
    facts: [],
    details: model.details,
  });
  return { ...opened, container };
}

function requireOld({ container, format }: Opened): AprModel {
  const at = { source: container.parts[0]?.label ?? format.id };
  if (!(container instanceof AprModel)) {
    throw new UsageError(
      "usage/upgrade.format",
      `Cannot upgrade ${format.name}: only old APR files and vaults have a successor`,
      at,
      {
        hint: "To write APR from it, use: tare convert IN OUT.apr",
      },
    );
  }
  if (container.layout !== "spec" && container.layout !== "manifest") return container;
  const message = "Cannot upgrade: the file is in the layout of the APR v2 specification already";
  throw new UsageError("usage/upgrade.current", message, at, {
    hint: "To write it again, use: tare convert IN OUT.apr",
  });
}

function needsWrap(source: string): UnsupportedError {
  const message = "Cannot upgrade APRN: its payload is a structure of the program that wrote it, not tensors";
  return new UnsupportedError(
    "unsupported/upgrade.aprn",
    message,
    { source },
    {
      hint: "Pass --wrap to keep the payload as one tensor of bytes",
    },
  );
}

/** Throws the first error that verify finds. */
async function checkSound(opened: Opened, options: UpgradeOptions): Promise<void> {
  const { engine, limits, signal, onProgress } = options;
  const { findings } = await verify(opened, { level: "full", engine, limits, signal, onProgress });
  const fault = findings.find(({ severity }) => severity === "error");
  if (fault === undefined) return;
  const message = `Cannot upgrade: ${fault.message}`;
  const extra = { hint: fault.hint ?? "See all of it with: tare verify" };
  if (fault.code.startsWith("integrity/"))
    throw new IntegrityError(fault.code as `integrity/${string}`, message, fault.at, extra);
  throw new FormatError(fault.code as `format/${string}`, message, fault.at, extra);
}

interface Upgraded {
  readonly tensors: readonly Tensor[];
  readonly replaced: readonly string[];
  readonly added: readonly MetadataEntry[];
}

async function upgradeTensors(model: AprModel, options: UpgradeOptions): Promise<Upgraded> {
  if (model.layout === "aprn") {
    const payload = await payloadTensor(model, options);
    return { tensors: [payload], replaced: [], added: [{ key: "source_format", value: stringValue("APRN") }] };
  }
  const { details, tensors } = model;
  if (!(details instanceof WhisperDetails) || details.scales.size === 0) return { tensors, replaced: [], added: [] };
  const floats = tensors.map((tensor) => {
    const scale = details.scales.get(tensor.name);
    return scale === undefined || tensor.dtype !== "I8" ? tensor : scaledTensor(tensor, scale);
  });
  return { tensors: floats, replaced: ["quantization", "tensor_scales"], added: [] };
}

async function payloadTensor(model: AprModel, options: UpgradeOptions): Promise<Tensor> {
  const bytes = await readAprnPayload(model, options);
  const { byteLength } = bytes;
  const source = memorySource(bytes, labelOf(model));
  return new Tensor(
    { name: "payload", dtype: "U8", shape: [byteLength], byteLength, offset: 0 },
    { source: () => source },
  );
}

/** Stored integers times one step, as float32. */
function scaledTensor(tensor: Tensor, scale: number): Tensor {
  const { name, shape, offset, storedByteLength, file, elementCount } = tensor;
  const facts = { name, dtype: "F32" as const, shape, byteLength: 4 * elementCount, offset, storedByteLength, file };
  return new Tensor(facts, { source: () => new ScaledSource(tensor.source(), scale) });
}

/** Elements that one step converts. */
const PIECE_ELEMENTS = 1 << 18;

class ScaledSource extends ComputedSource {
  readonly #inner: Source;
  readonly #scale: number;

  constructor(inner: Source, scale: number) {
    super({ label: inner.label, byteLength: 4 * inner.byteLength, pieceBytes: 4 * PIECE_ELEMENTS });
    this.#inner = inner;
    this.#scale = scale;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const first = Math.floor(position / 4);
      const last = Math.min(Math.ceil(end / 4), first + PIECE_ELEMENTS);
      const floats = scale(await this.#inner.read(first, last - first, { signal: options.signal }), this.#scale);
      const piece = floats.subarray(position - 4 * first, position - 4 * first + end - position);
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }
}

function scale(integers: Bytes, step: number): Bytes {
  const floats = new Uint8Array(4 * integers.byteLength);
  const view = new DataView(floats.buffer);
  const signed = new Int8Array(integers.buffer, integers.byteOffset, integers.byteLength);
  for (let i = 0; i < signed.length; i++) view.setFloat32(4 * i, step * (signed[i] as number), true);
  return floats;
}

function labelOf(model: AprModel): string {
  return model.parts[0]?.label ?? "apr";
}

/** Errors of upgrading alone. */
export const UPGRADE_ERRORS = {
  "usage/upgrade.format": {
    what: "Something else than an APR file was to be upgraded.",
    why: "Only APR has older layouts that a newer one replaces.",
    fix: "Use `tare convert IN OUT.apr` to write APR from another format.",
  },
  "usage/upgrade.current": {
    what: "The file to be upgraded is in the layout of the APR v2 specification already.",
    why: "There is nothing newer to make of it.",
    fix: "Use the file as it is, or write it again with `tare convert`.",
  },
  "unsupported/upgrade.aprn": {
    what: "An APRN container was to be upgraded.",
    why: "Its payload is a structure of the program that wrote it (Rust's bincode), whose fields are not described in the file.",
    fix: "Pass --wrap to keep the payload as one tensor of bytes, or load and save the model with aprender.",
  },
} as const satisfies ErrorCatalog;
