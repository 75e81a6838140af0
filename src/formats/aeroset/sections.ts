import type { Section } from "../../model/format.ts";
import { aeroSections } from "../aero/inspect.ts";
import type { AeroModel } from "../aero/model.ts";
import { FIRST_PART, type SetModel } from "./set-model.ts";

/** The JSON, the global index, and everything but the tensors of the parts; one that was not opened is one section. */
export function aerosetSections(model: SetModel): Section[] {
  const { source, index, partFiles } = model.content;
  const json: Section = { name: "set", kind: "index", part: 0, offset: 0, byteLength: source.byteLength };
  const inPart = (file: AeroModel, part: number): Section[] =>
    aeroSections(file).map((section) => ({ ...section, part }));
  const parts = partFiles.flatMap((part, i): Section[] => {
    const place = FIRST_PART + i;
    if (part.layout === undefined && part.model !== undefined) return inPart(part.model, place);
    return [{ name: "part", kind: "data", part: place, offset: 0, byteLength: part.byteLength }];
  });
  return [json, ...inPart(index, 1), ...parts];
}
