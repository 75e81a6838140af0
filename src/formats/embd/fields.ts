import { type FieldPlace, placesOf } from "../../struct/field-places.ts";
import type { EmbdModel } from "./embd-model.ts";
import { fileFooter, fileHeader } from "./layout.ts";

/** Header and footer of the specification's layout; the other layouts have neither. */
export function embdFields({ details }: EmbdModel): readonly FieldPlace[] {
  if (details.layout !== "spec") return [];
  const { footerOffset } = details;
  const footer = footerOffset === undefined ? [] : placesOf(fileFooter, footerOffset, "footer");
  return [...placesOf(fileHeader, 0, "header"), ...footer];
}
