import type { PartRange } from "../../model/format.ts";
import type { FieldPlace } from "../../struct/field-places.ts";
import { aeroFields } from "../aero/inspect.ts";
import { FIRST_PART, type SetModel } from "./set-model.ts";

/** The JSON as text; of the index and of parts that are open, what an AERO file names. */
export function aerosetFields({ content }: SetModel, { part }: PartRange): readonly FieldPlace[] {
  const { source, index, partFiles } = content;
  if (part === 0) return [{ offset: 0, byteLength: source.byteLength, name: "set", type: "text" }];
  const file = part < FIRST_PART ? index : partFiles[part - FIRST_PART]?.model;
  return file === undefined ? [] : aeroFields(file);
}
