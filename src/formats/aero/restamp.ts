import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Container } from "../../model/container.ts";
import { Metadata } from "../../model/metadata.ts";
import type { FormatRestamp, RestampContext } from "../../model/restamp.ts";
import { MsgpackReader } from "../../primitives/encoding/msgpack-reader.ts";
import { MsgpackWriter } from "../../primitives/encoding/msgpack-writer.ts";
import { AeroModel } from "./aero-model.ts";
import { checkChunkSize, decodeChunk } from "./chunk.ts";
import { CHUNK_FLAGS, FOURCC } from "./layout.ts";
import { renderJsonObject } from "./render-mjsn.ts";
import { type NewChunk, planChunks, unfit } from "./restamp-chunks.ts";
import { type Chunk, isCompressed } from "./toc.ts";

/** Edits the MJSN chunk, and the manifest where it repeats the model's name or architecture. */
export const aeroRestamp: FormatRestamp = {
  values: "json",
  // How quantised tensors are read follows from these.
  fixedKeys: ["source_format", "quant_descriptors"],
  target(container) {
    const model = aeroModel(container);
    const { source, json } = model.content;
    if (json === undefined) throw unfit(source.label, "must have a metadata chunk (MJSN) that can be read");
    return { source, metadata: new Metadata(json.entries) };
  },
  async plan(container, metadata, context) {
    const model = aeroModel(container);
    const { toc } = model.content.control;
    const chunk = toc.first(FOURCC.json);
    if (chunk === undefined) throw unfit(model.content.source.label, "must have a metadata chunk (MJSN)");
    const json = encodeUtf8(renderJsonObject(metadata.entries));
    const chunks = [await pack(chunk, json, context)];
    const manifest = await editManifest(model, metadata, context);
    if (manifest !== undefined) chunks.push(await pack(manifest.chunk, manifest.content, context));
    for (const { content } of chunks) checkSize(model, chunk, content, context);
    return planChunks(model, chunks, context);
  },
};

function aeroModel(container: Container): AeroModel {
  if (container instanceof AeroModel) return container;
  const at = { source: container.parts[0]?.label ?? container.format };
  throw new UsageError("usage/aero.container", `Cannot treat a ${container.format} container as AERO`, at);
}

/** A writer that exceeds what readers hold would lock its own file. */
function checkSize(model: AeroModel, chunk: Chunk, { byteLength }: Bytes, context: RestampContext): void {
  checkChunkSize({ ...chunk, flags: 0, byteLength, ulen: byteLength }, model.chunkContext(context));
}

/** Compressed where it was and where that still helps. */
async function pack(chunk: Chunk, content: Bytes, { engine }: RestampContext): Promise<NewChunk> {
  const raw = { chunk, content, stored: content, flags: chunk.flags & ~CHUNK_FLAGS.COMPRESSED_ZSTD };
  if (!isCompressed(chunk)) return raw;
  const stored = await engine.zstdCompress(content);
  return stored.byteLength < content.byteLength ? { ...raw, stored, flags: chunk.flags } : raw;
}

/** The manifest with the name and the architecture that the metadata has now; undefined where nothing changes. */
async function editManifest(
  model: AeroModel,
  metadata: Metadata,
  context: RestampContext,
): Promise<{ readonly chunk: Chunk; readonly content: Bytes } | undefined> {
  const { control, json, manifest, source } = model.content;
  const chunk = control.toc.first(FOURCC.manifest);
  const before = new Metadata(json?.entries ?? []);
  const wanted = new Map<string, string>();
  for (const [field, key, held] of [
    ["name", "model_name", manifest.name],
    ["architecture", "architecture", manifest.architecture],
  ] as const) {
    const text = metadata.text(key);
    if (held !== undefined && text !== undefined && text !== before.text(key) && text !== held) wanted.set(field, text);
  }
  if (chunk === undefined || wanted.size === 0) return undefined;
  const stored = await source.read(chunk.offset, chunk.byteLength, { signal: context.signal });
  const content = await decodeChunk(chunk, stored, model.chunkContext(context));
  return { chunk, content: replaceTexts(content, wanted, source.label) };
}

/** The MessagePack map with texts of its member "model" replaced, every other byte as it was. */
function replaceTexts(content: Bytes, wanted: ReadonlyMap<string, string>, label: string): Bytes {
  const reader = new MsgpackReader(content, { source: label, base: 0, what: "AERO MMSG" });
  const pieces: Bytes[] = [];
  let copied = 0;
  for (let left = reader.readMapHeader("mmsg"); left > 0; left--) {
    const key = reader.readKey("mmsg");
    if (key !== "model" || reader.peekType(key) !== "map") {
      reader.skip(key);
      continue;
    }
    for (let members = reader.readMapHeader(key); members > 0; members--) {
      const text = wanted.get(reader.readKey(key));
      const start = content.byteLength - reader.remaining;
      reader.skip(key);
      if (text === undefined) continue;
      const writer = new MsgpackWriter();
      writer.string(text);
      pieces.push(content.subarray(copied, start), writer.take());
      copied = content.byteLength - reader.remaining;
    }
  }
  return concatBytes([...pieces, content.subarray(copied)]);
}
