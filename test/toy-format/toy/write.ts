import { concatBytes } from "../../../src/base/bytes.ts";
import { encodeUtf8 } from "../../../src/base/text.ts";
import type { FormatWriter, ModelContent, WritePlan } from "../../../src/model/format.ts";
import { writeFiles } from "../../../src/model/pieces.ts";
import { toy } from "./index.ts";
import { CRC_BYTES, MAGIC, PREFIX_BYTES } from "./layout.ts";
import type { ToyHeader } from "./read.ts";

interface ToyPlan extends WritePlan {
  readonly header: Uint8Array<ArrayBuffer>;
  readonly content: ModelContent;
}

export const writer: FormatWriter = {
  format: toy,
  plan(content, { name }): ToyPlan {
    const texts = [...content.metadata].map(({ key, value }) => [key, value.type === "string" ? value.value : ""]);
    const tensors = content.tensors.map(({ name: tensor, dtype, shape }) => ({ name: tensor, dtype, shape }));
    const text = JSON.stringify({ metadata: Object.fromEntries(texts), tensors } satisfies ToyHeader);
    const json = encodeUtf8(text);
    const header = concatBytes([Uint8Array.from(MAGIC), new Uint8Array(Uint32Array.of(json.byteLength).buffer), json]);
    const dataBytes = content.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const byteLength = PREFIX_BYTES + json.byteLength + dataBytes + CRC_BYTES;
    return { header, content, files: [{ name, byteLength }], primary: name, losses: [], notes: [] };
  },
  async write(plan, output, context) {
    const { header, content, files } = plan as ToyPlan;
    const data = await Promise.all(content.tensors.map((tensor) => tensor.bytes()));
    const body = concatBytes([header, ...data]);
    const crc = new Uint8Array(Uint32Array.of(await context.engine.crc32(body)).buffer);
    const pieces = [body, crc].map((bytes) => ({ kind: "bytes" as const, bytes }));
    await writeFiles(
      files.map((file) => ({ ...file, pieces })),
      output,
      context,
    );
  },
};
