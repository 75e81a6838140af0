import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Metadata } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";

/**
 * Which of the layouts under this extension a file has: the specification's own, a manifest of shards, or one of those
 * that programs really write.
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

/** What opening has read, whatever the layout. */
export interface AprContents {
  readonly layout: AprLayout;
  /** As people write it; absent where the layout has none. */
  readonly version?: string | undefined;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread?: Model["unread"];
  /** Facts worth a line in `inspect`, without the layout itself. */
  readonly facts: readonly (readonly [string, string])[];
  /** The layout's own facts, for its verify and sections. */
  readonly details: unknown;
}

/** As `inspect` names the layouts. */
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
  readonly facts: readonly (readonly [string, string])[];
  readonly details: unknown;
  readonly #index: TensorIndex;

  constructor(contents: AprContents) {
    this.layout = contents.layout;
    this.version = contents.version;
    this.parts = contents.parts;
    this.metadata = contents.metadata;
    this.tensors = contents.tensors;
    this.warnings = contents.warnings;
    this.unread = contents.unread;
    this.facts = [["layout", LAYOUT_NAMES[contents.layout]], ...contents.facts];
    this.details = contents.details;
    this.#index = new TensorIndex(contents.tensors, contents.parts[0]?.label ?? "apr");
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  async close(): Promise<void> {
    const closing = this.parts.map((part) => part.source.close());
    for (const result of await Promise.allSettled(closing)) if (result.status === "rejected") throw result.reason;
  }
}

/** The container as a model of this format; another one is refused. */
export function aprModel(container: Container): AprModel {
  if (container instanceof AprModel) return container;
  const message = `Cannot treat a ${container.format} container as APR`;
  throw new UsageError("usage/apr.container", message, { source: container.parts[0]?.label ?? container.format });
}
