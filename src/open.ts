import { FormatError, UnsupportedError, UsageError } from "./base/errors.ts";
import type { LimitOverrides } from "./base/limits.ts";
import { withHead } from "./bytes/layers/prefix.ts";
import { isMemory } from "./bytes/memory.ts";
import type { Resolver } from "./bytes/resolver.ts";
import type { Spool } from "./bytes/sink.ts";
import type { Source } from "./bytes/source.ts";
import { FORMATS, openingBytesFor } from "./formats/registry.ts";
import type { Container } from "./model/archive.ts";
import type { Finding } from "./model/finding.ts";
import type { EncryptionRule, Format, Head, OpenContext, Opened, PasswordSource } from "./model/format.ts";
import type { Model } from "./model/model.ts";
import type { Engine } from "./primitives/engine.ts";

export interface OpenOptions {
  readonly engine?: Engine | undefined;
  readonly limits?: LimitOverrides | undefined;
  /** Reaches the other files of a multi-file model; without it a single file opens alone. */
  readonly resolver?: Resolver | undefined;
  /** Takes what is too long to be checked in memory: see OpenContext. */
  readonly spool?: Spool | undefined;
  /** Asked when encrypted bytes are read for the first time. */
  readonly password?: PasswordSource | undefined;
  /** What to do about a vault without encryption: see EncryptionRule. */
  readonly encryption?: EncryptionRule | undefined;
  readonly signal?: AbortSignal | undefined;
  /** File name without folder; taken from the resolver or the label where absent. */
  readonly name?: string | undefined;
  /** Formats to consider; all of them where absent. */
  readonly formats?: readonly Format[] | undefined;
}

/** Sniffs the content, picks the format and opens it. Weights are not touched. */
export async function openSource(source: Source, options: OpenOptions = {}): Promise<Opened> {
  const at = { source: source.label };
  if (source.byteLength === 0) {
    throw new FormatError(
      "format/empty",
      "Cannot open: the file is empty (0 bytes)",
      { ...at, offset: 0 },
      {
        hint: "The download or copy did not finish; get the file again",
      },
    );
  }
  const name = options.name ?? options.resolver?.name ?? baseName(source.label);
  const byteLength = Math.min(openingBytesFor(name), source.byteLength);
  const bytes = await source.read(0, byteLength, { signal: options.signal });
  const head: Head = { bytes, byteLength: source.byteLength, name };
  const format = await chooseFormat(head, options.formats ?? FORMATS, source.label);
  const reader = await format.read();
  const context: OpenContext = {
    // Loaded only for those who bring none: pages and commands have engines of their own.
    engine: options.engine ?? (await import("./primitives/portable.ts")).portableEngine(),
    limits: options.limits ?? {},
    resolver: options.resolver,
    spool: options.spool,
    password: options.password,
    encryption: options.encryption,
    signal: options.signal,
  };
  // Bytes in memory cost no second read, and a tensor across the end of the head stays a view.
  const container = await reader.open(isMemory(source) ? source : withHead(source, bytes), context);
  return { container, format, reader, notes: extensionNotes(head, format, source.label) };
}

/** The container as a model; an archive is refused. */
export function requireModel(container: Container): Model {
  if (container.kind === "model") return container;
  const label = container.parts[0]?.label ?? container.format;
  throw new UsageError(
    "usage/not-a-model",
    "Cannot read tensors: this is an archive of files, not a model",
    { source: label },
    {
      hint: "Name a file inside it: ARCHIVE::path/to/model",
    },
  );
}

/** Content decides; the extension only lets a damaged file be refused by the reader it was meant for. */
async function chooseFormat(head: Head, formats: readonly Format[], label: string): Promise<Format> {
  const results = await Promise.all(formats.map(async (format) => ({ format, result: await format.sniff(head) })));
  const sure = results.find(({ result }) => result === "yes");
  if (sure !== undefined) return sure.format;
  // A page that opens what it knows need not load what it would say of everything else.
  const { recogniseForeign, describeUnknown } = await import("./formats/foreign.ts");
  const foreign = recogniseForeign(head);
  if (foreign !== undefined) {
    const { code, what, hint } = foreign;
    throw new UnsupportedError(code, `Cannot open: this is ${what}`, { source: label, offset: 0 }, { hint });
  }
  const meant = results.find(({ format, result }) => result === "possible" && hasExtension(head.name, format));
  if (meant !== undefined) return meant.format;
  throw new UnsupportedError(
    "unsupported/unknown",
    describeUnknown(head),
    { source: label, offset: 0 },
    {
      hint: `tare reads ${formats.map((format) => format.name).join(", ")}`,
    },
  );
}

function hasExtension(name: string, format: Format): boolean {
  const lower = name.toLowerCase();
  return format.extensions.some((extension) => lower.endsWith(extension));
}

function extensionNotes(head: Head, format: Format, label: string): Finding[] {
  const claimed = FORMATS.find((other) => other.id !== format.id && hasExtension(head.name, other));
  if (claimed === undefined || hasExtension(head.name, format)) return [];
  const message = `Named like ${claimed.name}, but the content is ${format.name}`;
  return [{ severity: "note", code: "format/extension", message, at: { source: label } }];
}

function baseName(label: string): string {
  return (
    label
      .replace(/[?#].*$/, "")
      .split(/[\\/]/)
      .at(-1) ?? label
  );
}
