import { UnsupportedError, UsageError } from "../../base/errors.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Source } from "../../bytes/source.ts";
import type { UpgradeContext } from "../../model/format.ts";
import { type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { Tensor } from "../../model/tensor.ts";
import { FloatSource } from "../../model/values/numbers.ts";
import { aprnHeaderEntries, readAprnPayload } from "./layouts/aprn.ts";
import { WhisperDetails } from "./layouts/whisper.ts";
import { upgradeMetadata } from "./metadata.ts";
import { AprModel } from "./model.ts";

/** Refuses the specification's own layout, and APRN unless the caller keeps its payload as bytes. */
export function checkUpgrade(model: AprModel, { payload }: UpgradeContext): void {
  const at = { source: labelOf(model) };
  if (model.layout === "spec" || model.layout === "manifest") {
    const message = "Cannot upgrade: the file is in the layout of the APR v2 specification already";
    throw new UsageError("usage/upgrade.current", message, at, {
      hint: "To write it again, use: tare convert IN OUT.apr",
    });
  }
  if (model.layout !== "aprn" || payload !== undefined) return;
  const message = "Cannot upgrade APRN: its payload is a structure of the program that wrote it, not tensors";
  throw new UnsupportedError("unsupported/upgrade.aprn", message, at, {
    hint: "Pass the option wrap to keep the payload as one tensor of bytes",
  });
}

/** The same model in the specification's terms: required keys added, int8 weights of whisper.apr as floats. */
export async function upgradeApr(model: AprModel, context: UpgradeContext): Promise<AprModel> {
  const { tensors, replaced, added } = await upgradeTensors(model, context);
  const extra = added.reduce((metadata, { key, value }) => metadata.with(key, value), model.metadata);
  return new AprModel({
    layout: model.layout,
    version: model.version,
    parts: model.parts,
    metadata: upgradeMetadata(extra, replaced),
    tensors,
    warnings: model.warnings,
    // Upgrading an APRN file keeps its payload and its header, so nothing stays unread.
    unread: model.layout === "aprn" ? [] : model.unread,
    facts: [],
    details: model.details,
  });
}

interface Upgraded {
  readonly tensors: readonly Tensor[];
  readonly replaced: readonly string[];
  readonly added: readonly MetadataEntry[];
}

async function upgradeTensors(model: AprModel, context: UpgradeContext): Promise<Upgraded> {
  if (model.layout === "aprn") {
    const payload = await payloadTensor(model, context);
    const header: MetadataValue = { type: "map", entries: aprnHeaderEntries(model) };
    const added = [
      { key: "source_format", value: stringValue("APRN") },
      { key: "source_header", value: header },
    ];
    return { tensors: [payload], replaced: [], added };
  }
  const { details, tensors } = model;
  if (!(details instanceof WhisperDetails) || details.scales.size === 0) return { tensors, replaced: [], added: [] };
  const floats = tensors.map((tensor) => {
    const scale = details.scales.get(tensor.name);
    return scale === undefined || tensor.dtype !== "I8" ? tensor : scaledTensor(tensor, scale);
  });
  return { tensors: floats, replaced: ["quantization", "tensor_scales"], added: [] };
}

async function payloadTensor(model: AprModel, context: UpgradeContext): Promise<Tensor> {
  const bytes = await readAprnPayload(model, context);
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

type Floats = Float32Array<ArrayBuffer>;

class ScaledSource extends FloatSource {
  readonly #inner: Source;
  readonly #scale: number;

  constructor(inner: Source, scale: number) {
    super({ label: inner.label, elementCount: inner.byteLength });
    this.#inner = inner;
    this.#scale = scale;
  }

  protected async values(first: number, last: number, signal: AbortSignal | undefined): Promise<Floats> {
    const { buffer, byteOffset, byteLength } = await this.#inner.read(first, last - first, { signal });
    return Float32Array.from(new Int8Array(buffer, byteOffset, byteLength), (stored) => this.#scale * stored);
  }
}

function labelOf(model: AprModel): string {
  return model.parts[0]?.label ?? "apr";
}
