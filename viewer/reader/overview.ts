import type { ErrorJson } from "../../src/base/errors.ts";
import type { Format, Opened } from "../../src/model/format.ts";
import type { Model } from "../../src/model/model.ts";
import { inspect } from "../../src/operations/inspect.ts";
import { describeValue } from "../pages/metadata-tree.ts";
import type { MetadataLine, Overview } from "../shared/protocol.ts";
import type { Target } from "./open-targets.ts";

/** Lines of metadata on the first page. */
const METADATA_LINES = 12;

export function describeOpened(target: Target, opened: Opened): Overview {
  const { metadata, ...inspection } = inspect(opened);
  const { container } = opened;
  const entries = metadata.entries.filter(({ key }) => key !== "tare.origin");
  return {
    ...inspection,
    ...shared(target),
    kind: container.kind,
    metadata: entries
      .slice(0, METADATA_LINES)
      .map(({ key, value }): MetadataLine => ({ key, ...describeValue(value) })),
    metadataCount: metadata.size,
    storage: container.kind === "archive" ? container.storage : undefined,
    embeds: container.kind === "model" && looksLikeEncoder(container) ? "yes" : "no",
    ...(target.fault === undefined ? {} : { byteLength: target.source.byteLength, error: target.fault.toJSON() }),
  };
}

/** The overview of bytes that no reader understood. */
export function describeUnreadable(target: Target, format: Format | undefined, error: ErrorJson): Overview {
  return {
    ...shared(target),
    kind: "unreadable",
    format: format?.id ?? "unknown",
    formatName: format?.name ?? "Unknown format",
    version: undefined,
    byteLength: target.source.byteLength,
    files: [{ label: target.label, byteLength: target.source.byteLength }],
    description: {},
    dtypes: [],
    largest: [],
    facts: [],
    warnings: [],
    integrity: "none",
    metadata: [],
    metadataCount: 0,
    embeds: "no",
    error,
  };
}

function shared({ id, label, watch, requests }: Target): Pick<Overview, "target" | "label" | "cost"> {
  return { target: id, label, cost: { requests: requests(), bytes: watch.bytes } };
}

/** Recognises BERT encoders by the names that their exporters use. Loading the embedder decides. */
function looksLikeEncoder(model: Model): boolean {
  if (model.format === "embd" || model.metadata.text("general.architecture") === "bert") return true;
  return model.tensors.some(({ name }) => /(?:^|\.)embeddings\.word_embeddings\.weight$/.test(name));
}
