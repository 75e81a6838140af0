import type { Section } from "../../model/format.ts";
import type { AprModel } from "./apr-model.ts";
import { manifestSections, specSections } from "./spec/sections.ts";
import { WildDetails } from "./wild/details.ts";

/** What lies where beside the tensors, by the model's own layout. */
export function aprSections(model: AprModel): readonly Section[] {
  switch (model.layout) {
    case "spec":
      return specSections(model);
    case "manifest":
      return manifestSections(model, aprSections);
    default:
      return model.details instanceof WildDetails ? model.details.sections : [];
  }
}
