import { type FieldPlace, placesOf } from "../../struct/field-places.ts";
import type { AprModel } from "./apr-model.ts";
import { fileFooter, fileHeader } from "./spec/layout.ts";

/** Header and footer of the specification's layout; layouts of the wild are named by their sections. */
export function aprFields({ layout, parts }: AprModel): readonly FieldPlace[] {
  const [file] = parts;
  if (layout !== "spec" || file === undefined) return [];
  const footerOffset = file.byteLength - fileFooter.byteLength;
  return [...placesOf(fileHeader, 0, "header"), ...placesOf(fileFooter, footerOffset, "footer")];
}
