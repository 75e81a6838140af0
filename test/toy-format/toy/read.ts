import { FormatError } from "../../../src/base/errors.ts";
import { defineLimits } from "../../../src/base/limits.ts";
import { sliceSource } from "../../../src/bytes/slice.ts";
import type { Source } from "../../../src/bytes/source.ts";
import { byteLengthOf, isDType } from "../../../src/model/dtype.ts";
import type { FormatReader, OpenContext, Section } from "../../../src/model/format.ts";
import { Metadata, stringValue } from "../../../src/model/metadata.ts";
import { type Model, TensorIndex } from "../../../src/model/model.ts";
import { Tensor } from "../../../src/model/tensor.ts";
import { Cursor } from "../../../src/struct/cursor.ts";
import { decodeJsonText } from "../../../src/struct/strict-json.ts";
import { CRC_BYTES, PREFIX_BYTES } from "./layout.ts";

export interface ToyHeader {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[];
}

export class ToyModel implements Model {
  readonly kind = "model";
  readonly format = "toy";
  readonly version = "1";
  readonly parts: Model["parts"];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings = [];
  readonly facts = [];
  readonly dataStart: number;

  constructor(source: Source, dataStart: number, { metadata, tensors }: ToyHeader) {
    this.parts = [{ label: source.label, byteLength: source.byteLength, source }];
    this.metadata = new Metadata(Object.entries(metadata).map(([key, text]) => ({ key, value: stringValue(text) })));
    this.dataStart = dataStart;
    let offset = dataStart;
    this.tensors = tensors.map(({ name, dtype, shape }) => {
      const at = { source: source.label, offset };
      const byteLength = isDType(dtype) ? byteLengthOf(dtype, shape, at) : undefined;
      if (!isDType(dtype) || byteLength === undefined || offset + byteLength > source.byteLength - CRC_BYTES)
        throw new FormatError("format/struct", `Cannot read tensor "${name}": it must lie within the file`, at);
      const start = offset;
      offset += byteLength;
      return new Tensor(
        { name, dtype, shape, byteLength, offset: start },
        { source: () => sliceSource(source, start, byteLength) },
      );
    });
  }

  tensor(name: string): Tensor {
    return new TensorIndex(this.tensors, this.parts[0]?.label ?? this.format).get(name);
  }

  async close(): Promise<void> {
    await this.parts[0]?.source.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

async function openToy(source: Source, { signal }: OpenContext): Promise<ToyModel> {
  const options = { source: source.label, code: "format/struct", what: "toy header" } as const;
  const prefix = await source.read(0, Math.min(PREFIX_BYTES, source.byteLength), { signal });
  const length = new Cursor(prefix, options, Math.min(4, prefix.byteLength)).u32("header_length");
  const rest = await source.read(PREFIX_BYTES, Math.min(length, source.byteLength - PREFIX_BYTES), { signal });
  const place = { source: source.label, offset: PREFIX_BYTES, what: "toy header" };
  return new ToyModel(source, PREFIX_BYTES + length, JSON.parse(decodeJsonText(rest, place)) as ToyHeader);
}

function sections({ dataStart, parts }: ToyModel): readonly Section[] {
  const end = parts[0]?.byteLength ?? 0;
  return [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: dataStart },
    { name: "crc", kind: "integrity", part: 0, offset: end - CRC_BYTES, byteLength: CRC_BYTES },
  ];
}

export const reader: FormatReader = {
  limits: defineLimits({}),
  open: openToy,
  sections: (container) => (container instanceof ToyModel ? sections(container) : []),
};
