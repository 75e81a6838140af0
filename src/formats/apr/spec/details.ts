import { UsageError } from "../../../base/errors.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import type { MetadataJson } from "../../../model/metadata-json.ts";
import type { AprModel } from "../apr-model.ts";
import type { SpecEntry } from "./entries.ts";
import type { FileChecksums } from "./footer.ts";
import type { FileHeader } from "./layout.ts";

/** What opening a file of the specification's layout has read: the `details` of its model. */
export interface SpecDetails {
  readonly source: Source;
  readonly header: FileHeader;
  readonly metadata: MetadataJson;
  readonly entries: readonly SpecEntry[];
  /** Stored bytes of each entry, in the order of the index. */
  readonly places: readonly Extent[];
  readonly signing: "unsigned" | "signed";
  /** Where tensor data must end: before the signature, if any, and the footer. */
  readonly dataEnd: number;
  /** Present where opening has looked at the footer and found nothing wrong. */
  readonly checksums?: FileChecksums | undefined;
}

/** The details of a model that `openSpec` made. */
export function specDetails(model: AprModel): SpecDetails {
  if (model.layout === "spec") return model.details as SpecDetails;
  const message = `Cannot treat a file of the layout "${model.layout}" as one of the specification's`;
  throw new UsageError("usage/apr.container", message, { source: model.parts[0]?.label ?? "apr" });
}
