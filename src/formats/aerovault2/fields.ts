import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import { HEADER_BYTES, PREFIX_BYTES, vault2Header } from "./layout.ts";
import { MANIFEST_OFFSET, type Vault2 } from "./vault2.ts";

/** Header and manifest, as docs/formats/aerovault2.md has them. */
export function vault2Fields({ header }: Vault2): readonly FieldPlace[] {
  return [
    ...placesOf(vault2Header, 0, "header"),
    { offset: HEADER_BYTES, byteLength: PREFIX_BYTES, name: "manifest.length", type: "u32" },
    { offset: MANIFEST_OFFSET, byteLength: header.manifestLength, name: "manifest", type: "bytes" },
  ];
}
