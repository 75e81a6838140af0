import { loadFormats } from "../../src/formats/registry.ts";
import type { Format } from "../../src/model/format.ts";

/** Every format with its readers and writers, for tests that go through all of them. */
export const FORMATS: readonly Format[] = await loadFormats();

export function formatById(id: string): Format | undefined {
  return FORMATS.find((format) => format.id === id);
}
