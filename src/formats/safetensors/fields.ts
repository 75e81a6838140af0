import type { Container } from "../../model/container.ts";
import type { PartRange } from "../../model/format.ts";
import type { FieldPlace } from "../../struct/field-places.ts";
import { safetensorsSections } from "./sections.ts";

const TYPES: Readonly<Record<string, string>> = { "header length": "u64", "header JSON": "text", "index JSON": "text" };

/** The length of the header and the header: all that is not tensor data. */
export async function safetensorsFields(container: Container, { part }: PartRange): Promise<readonly FieldPlace[]> {
  return safetensorsSections(container)
    .filter((section) => section.part === part)
    .map(({ name, offset, byteLength }) => {
      return { name: name.replaceAll(" ", "_"), offset, byteLength, type: TYPES[name] ?? "bytes" };
    });
}
