import { readFileSync } from "node:fs";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { SourceError } from "../../src/base/errors.ts";
import { decodeHex, encodeUtf8 } from "../../src/base/text.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import type { Resolver } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";

/** A file of any header text, legal or not, and any data. */
export function rawSafetensors(header: string | Bytes, data: Bytes = new Uint8Array(0), length?: bigint): Bytes {
  const text = typeof header === "string" ? encodeUtf8(header) : header;
  const field = new Uint8Array(8);
  new DataView(field.buffer).setBigUint64(0, length ?? BigInt(text.byteLength), true);
  return concatBytes([field, text, data]);
}

export interface BuiltTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Bytes;
}

export interface BuildOptions {
  readonly metadata?: Readonly<Record<string, string>>;
  /** How the JSON is spaced; the reference writer's is "tight". */
  readonly spacing?: "tight" | "python" | "indented";
}

/** A valid file with the tensors in the order given: rendered here, not by the writer under test. */
export function buildSafetensors(tensors: readonly BuiltTensor[], options: BuildOptions = {}): Bytes {
  let begin = 0;
  const members = tensors.map(({ name, dtype, shape, bytes }) => {
    const end = begin + bytes.byteLength;
    const entry = { dtype, shape, data_offsets: [begin, end] };
    begin = end;
    return `${JSON.stringify(name)}:${JSON.stringify(entry)}`;
  });
  if (options.metadata !== undefined) members.unshift(`"__metadata__":${JSON.stringify(options.metadata)}`);
  const text = respace(`{${members.join(",")}}`, options.spacing ?? "tight");
  const length = encodeUtf8(text).byteLength;
  const padded = text + " ".repeat((8 - (length % 8)) % 8);
  return rawSafetensors(padded, concatBytes(tensors.map((tensor) => tensor.bytes)));
}

function respace(text: string, spacing: NonNullable<BuildOptions["spacing"]>): string {
  if (spacing === "tight") return text;
  // Names in these files hold no quotes, colons or commas, so a plain replacement is right.
  if (spacing === "python") return text.replace(/([:,])/g, "$1 ");
  return text.replace(/([{,])/g, "$1\n\t").replace(/:/g, " :\r\n ");
}

/** Bytes that differ from place to place. */
export function patternBytes(byteLength: number, seed = 1): Bytes {
  return Uint8Array.from({ length: byteLength }, (_, i) => (i * 31 + seed * 7) & 0xff);
}

/** A file of test/fixtures/safetensors, without its comments. */
export function hexFixture(name: string): Bytes {
  const text = readFileSync(new URL(`../fixtures/safetensors/${name}.hex`, import.meta.url), "utf8");
  const bytes = decodeHex(text.replace(/#.*$/gm, "").replace(/\s/g, ""));
  if (bytes === undefined) throw new Error(`${name}.hex is not hex`);
  return bytes;
}

/** What another program says of that file. */
export interface FixtureFacts {
  readonly byteLength: number;
  readonly sha256: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: readonly {
    readonly name: string;
    readonly dtype: string;
    readonly shape: readonly number[];
    readonly offset: number;
    readonly sha256: string;
  }[];
}

export function fixtureFacts(name: string): FixtureFacts {
  const url = new URL(`../fixtures/safetensors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8")) as FixtureFacts;
}

export interface FolderResolver extends Resolver {
  /** Every source handed out, in order. */
  readonly opened: readonly { readonly name: string; readonly closed: boolean }[];
  /** Most sources that were being resolved at the same time. */
  readonly mostAtOnce: number;
}

/** Siblings in memory, with a record of what became of them. */
export function folderResolver(name: string, files: ReadonlyMap<string, Bytes>): FolderResolver {
  const opened: { name: string; closed: boolean }[] = [];
  let running = 0;
  let mostAtOnce = 0;
  return {
    name,
    opened,
    get mostAtOnce() {
      return mostAtOnce;
    },
    async resolve(sibling: string): Promise<Source> {
      mostAtOnce = Math.max(mostAtOnce, ++running);
      await new Promise((resolve) => setTimeout(resolve, 0));
      running--;
      const bytes = files.get(sibling);
      if (bytes === undefined) throw new SourceError("source/not-found", "Cannot find it", { source: sibling });
      const source = memorySource(bytes, sibling);
      const record = { name: sibling, closed: false };
      opened.push(record);
      return {
        label: sibling,
        byteLength: source.byteLength,
        read: source.read.bind(source),
        stream: source.stream.bind(source),
        close: () => {
          record.closed = true;
          return source.close();
        },
      };
    },
  };
}
