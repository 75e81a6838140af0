import type { Bytes } from "../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { encodeHex } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { FormatReader, Members, MembersContext, OpenContext } from "../../model/format.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import type { OriginFacts } from "../../model/origin/origin.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { type AprKind, aprKind, OPENING_BYTES } from "./index.ts";
import { aprFields, aprSections } from "./inspect.ts";
import { APR_LIMITS, aprLimits, WILD_LIMITS } from "./limits.ts";
import { type AprModel, aprModel } from "./model.ts";
import { fileFooter } from "./spec/layout.ts";
import { parseManifest } from "./spec/manifest.ts";
import { describeSpec, isUsualApr } from "./spec/origin.ts";
import { openSealable } from "./spec/read.ts";
import { openManifest } from "./spec/shards.ts";

/** Opens an APR file of any layout, or a set by its manifest. Reads no tensor data. */
export async function openApr(source: Source, context: OpenContext): Promise<AprModel> {
  const { signal } = context;
  const opening = await source.read(0, Math.min(OPENING_BYTES, source.byteLength), { signal });
  const kind = aprKind(opening);
  switch (kind) {
    case "spec":
      return openSealable(source, opening, context);
    case "manifest":
      return openManifest(source, opening, context, openApr);
    case undefined:
    case "byte-swapped":
    case "unknown-magic":
    case "encrypted-container":
    case "bundle":
      throw refusal(kind, source, opening);
    default:
      return (await import("./layouts/read.ts")).openWild(source, opening, context);
  }
}

/** The error for a file that is recognised but cannot be read. */
function refusal(kind: AprKind | undefined, source: Source, opening: Bytes): FormatError | UnsupportedError {
  const at = { source: source.label, offset: 0, path: "magic" };
  if (kind === "byte-swapped") {
    const message = 'Cannot read APR: the magic must be "APR2", found "2RPA": the writer used the wrong byte order';
    return new FormatError("format/apr.byte-order", message, at);
  }
  if (kind === "encrypted-container" || kind === "bundle") {
    const what = kind === "bundle" ? "a bundle of models (APBUNDLE)" : "a file encrypted by apr encrypt (ALBR-ENC)";
    const message = `Cannot read APR: this is ${what}, which holds APR files in a container of its own`;
    const hint = "Unpack it with the program that made it, then open the .apr file inside";
    return new UnsupportedError("unsupported/apr.container", message, at, { hint });
  }
  const found = encodeHex(opening.slice(0, 4));
  const message = `Cannot read APR: the magic must be "APR2", "APR1", "APRN" or "APR\\0", found ${found}`;
  return new FormatError("format/apr.magic", message, at);
}

/** The shards that a manifest names; undefined for a file of tensors. */
async function aprMembers(source: Source, context: MembersContext): Promise<Members | undefined> {
  const { signal } = context;
  const head = await source.read(0, Math.min(OPENING_BYTES, source.byteLength), { signal });
  if (aprKind(head) !== "manifest") return undefined;
  const limits = aprLimits(context.limits);
  const at = { source: source.label, offset: 0 };
  checkLimit(source.byteLength, limits.manifestBytes, "APR manifest bytes", "limit/apr.manifest-bytes", at);
  const bytes = (await source.read(0, source.byteLength, { signal })).slice();
  const { shards } = parseManifest(decodeJsonText(bytes, { ...at, what: "APR manifest" }), source.label, limits);
  const files = shards.map(({ file, size, crc32 }) => {
    const stated = crc32 === undefined ? undefined : { value: crc32, footerBytes: fileFooter.byteLength };
    return { path: file, byteLength: size, crc32: stated };
  });
  return { files, index: { bytes } };
}

/** APR v2 by its specification, sets by their manifest, and the other layouts under this extension. */
export const reader: FormatReader = {
  limits: { ...APR_LIMITS, ...WILD_LIMITS },
  open: openApr,
  members: aprMembers,
  sections: (container) => aprSections(aprModel(container)),
  fields: async (container, range) => aprFields(aprModel(container), range),
  describe: (container) => describeApr(aprModel(container)),
  isUsual: isUsualApr,
  decodeValue: decodeJsonNumber,
  checksums: "whole file",
};

/** Only the specification's layout can be written again byte for byte, so only it has facts to keep. */
function describeApr(model: AprModel): OriginFacts {
  return model.layout === "spec" || model.layout === "manifest" ? describeSpec(model) : {};
}
