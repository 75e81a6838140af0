import type { Bytes } from "../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import type { Source } from "../../bytes/source.ts";
import type { OpenContext } from "../../model/format.ts";
import type { AprModel } from "./apr-model.ts";
import { OPENING_BYTES } from "./index.ts";
import { openSealable } from "./seal/open-sealed.ts";
import { type AprKind, aprKind } from "./sniff.ts";

/** Opens an APR file of any layout, or a set by its manifest. Reads no tensor data; loads the code of that layout alone. */
export async function openApr(source: Source, context: OpenContext): Promise<AprModel> {
  const { signal } = context;
  const opening = await source.read(0, Math.min(OPENING_BYTES, source.byteLength), { signal });
  const kind = aprKind(opening);
  switch (kind) {
    case "spec":
      return openSealable(source, opening, context);
    case "manifest":
      return (await import("./spec/open-manifest.ts")).openManifest(source, opening, context, openApr);
    case undefined:
    case "byte-swapped":
    case "unknown-magic":
    case "encrypted-container":
    case "bundle":
      throw refusal(kind, source, opening);
    default:
      return (await import("./wild/open.ts")).openWild(source, opening, context);
  }
}

/** What is recognised and cannot be read. */
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
