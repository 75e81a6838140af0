import { UsageError } from "../../base/errors.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Metadata } from "../../model/metadata.ts";
import type { MetadataJson } from "../../model/metadata-json.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { FileChecksums } from "./spec/header.ts";
import type { FileHeader } from "./spec/layout.ts";
import type { SpecEntry } from "./spec/tensors.ts";

/**
 * The layout of a file with this extension: the specification's, a manifest of shards, or one that programs really
 * write.
 */
export type AprLayout =
  | "spec"
  | "manifest"
  | "aprender"
  | "aprender-2025"
  | "wrapper"
  | "apr1"
  | "whisper"
  | "aprn"
  | "realizar-json";

/** What opening reads, in every layout. */
export interface AprContents {
  readonly layout: AprLayout;
  /** As people write it; absent if the layout has none. */
  readonly version?: string | undefined;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread?: Model["unread"];
  readonly staysBehind?: Model["staysBehind"];
  /** Facts worth a line in `inspect`, without the layout itself. */
  readonly facts: readonly (readonly [string, string])[];
  /** The layout's own facts, for its `verify` and its sections. */
  readonly details: unknown;
  /** Only in a set: whether its shards are those that the manifest names. */
  readonly proof?: SetProof | undefined;
}

/** Compares the files of a set with what the set says about them. */
interface SetProof {
  readonly unproven: readonly string[];
  check(label: string, signal: AbortSignal | undefined): Promise<void>;
  prove(signal: AbortSignal | undefined): Promise<void>;
}

/** The layouts' names in `inspect`. */
const LAYOUT_NAMES: Readonly<Record<AprLayout, string>> = {
  spec: "APR v2 specification",
  manifest: "APR v2 shard manifest",
  aprender: "aprender, 64-byte header",
  "aprender-2025": "aprender of December 2025, 64-byte header",
  wrapper: "aprender, compressed APR1",
  apr1: "aprender APR1",
  whisper: "whisper.apr APR1",
  aprn: "aprender container of 2025 (APRN)",
  "realizar-json": "realizar, JSON index",
};

/** An opened APR file or set, of any layout. Owns the sources of its parts. */
export class AprModel implements Model {
  readonly kind = "model";
  readonly format = "apr";
  readonly version: string | undefined;
  readonly layout: AprLayout;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread: Model["unread"];
  readonly staysBehind: Model["staysBehind"];
  readonly facts: readonly (readonly [string, string])[];
  readonly details: unknown;
  readonly #proof: SetProof | undefined;
  readonly #index: TensorIndex;

  constructor(contents: AprContents) {
    this.layout = contents.layout;
    this.version = contents.version;
    this.parts = contents.parts;
    this.metadata = contents.metadata;
    this.tensors = contents.tensors;
    this.warnings = contents.warnings;
    this.unread = contents.unread;
    this.staysBehind = contents.staysBehind;
    this.facts = [["layout", LAYOUT_NAMES[contents.layout]], ...contents.facts];
    this.details = contents.details;
    this.#proof = contents.proof;
    this.#index = new TensorIndex(contents.tensors, contents.parts[0]?.label ?? "apr");
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  get unproven(): readonly string[] {
    return this.#proof?.unproven ?? [];
  }

  async checkPart(label: string, { signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    await this.#proof?.check(label, signal);
  }

  async prove({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    await this.#proof?.prove(signal);
  }

  async close(): Promise<void> {
    const closing = this.parts.map((part) => part.source.close());
    for (const result of await Promise.allSettled(closing)) if (result.status === "rejected") throw result.reason;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The container as a model of this format; another one is refused. */
export function aprModel(container: Container): AprModel {
  if (container instanceof AprModel) return container;
  const message = `Cannot treat a ${container.format} container as APR`;
  throw new UsageError("usage/apr.container", message, { source: container.parts[0]?.label ?? container.format });
}

/** What opening a file in the specification's layout reads: the `details` of its model. */
export interface SpecDetails {
  readonly source: Source;
  readonly header: FileHeader;
  readonly metadata: MetadataJson;
  /** `byteLength` counts header and entries; index_size may be larger, and the rest belongs to nothing. */
  readonly index: { readonly reserved: number; readonly byteLength: number };
  readonly entries: readonly SpecEntry[];
  /** Stored bytes of each entry, in the order of the index. */
  readonly places: readonly Extent[];
  readonly signing: "unsigned" | "signed";
  /** Where tensor data must end: before the signature, if any, and the footer. */
  readonly dataEnd: number;
  /** Present if opening read the footer and found it right. */
  readonly checksums?: FileChecksums | undefined;
}

/** The details of a model that `openSpec` made. */
export function specDetails(model: AprModel): SpecDetails {
  if (model.layout === "spec") return model.details as SpecDetails;
  const message = `Cannot treat a file of the layout "${model.layout}" as one of the specification's`;
  throw new UsageError("usage/apr.container", message, { source: model.parts[0]?.label ?? "apr" });
}
