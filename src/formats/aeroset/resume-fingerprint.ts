import { encodeHex } from "../../base/hex.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { SourceDescriptor } from "../../bytes/source.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { FileImage } from "./plan.ts";

/** Rows whose text is hashed at once. */
const ROWS_AT_ONCE = 256;

/**
 * SHA-256 over everything that decides a part's bytes, but for the content of sources that have no identity: two parts
 * that agree in it and in those are the same.
 */
export async function fingerprintPart({ name, image }: FileImage, engine: Engine): Promise<string> {
  const { uuid, pageBytes, shardIds, layout, json, manifest, rows, tensors } = image;
  const hasher = await engine.hasher("sha256");
  const add = (value: unknown): void => hasher.update(encodeUtf8(`${JSON.stringify(value)}\n`));
  add([name, encodeHex(uuid), pageBytes ?? null, shardIds, layout.fileBytes, json.byteLength, manifest.byteLength]);
  add(layout.chunks.map(({ fourcc, offset, byteLength }) => [fourcc, offset, byteLength]));
  hasher.update(json);
  hasher.update(manifest);
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE) {
    const end = start + ROWS_AT_ONCE;
    add([rows.slice(start, end), tensors.slice(start, end).map((tensor) => identityOf(tensor) ?? null)]);
  }
  return encodeHex(hasher.digest());
}

/**
 * Which bytes of which state of which file a tensor comes from; undefined where the source cannot say, such as a URL, a
 * cast, or one that checks pages.
 */
export function identityOf(tensor: Tensor): string | undefined {
  const { descriptor } = tensor.source();
  return descriptor === undefined ? undefined : describe(descriptor);
}

function describe(descriptor: SourceDescriptor): string | undefined {
  if (descriptor.kind === "blob" || descriptor.kind === "assembled") return undefined;
  if (descriptor.kind === "file") return `${descriptor.path} ${descriptor.identity}`;
  const of = describe(descriptor.of);
  return of === undefined ? undefined : `${of} ${descriptor.offset}+${descriptor.byteLength}`;
}
