import { formatForName } from "./registry.ts";

/** "model-00002-of-00005.safetensors", as Hugging Face and llama.cpp number the files of one model. */
const NUMBERED = /^(.*)-(\d{5})-of-(\d{5})(\.[a-z.]+)$/i;

/** Whole models among the names: an index stands for its shards, a first part for the later ones. */
export function chooseCandidates(names: readonly string[]): string[] {
  const sets = names.filter((name) => name.toLowerCase().endsWith(".aeroset.json")).sort();
  // The parts of a set are whole files of their own and have no common stem, so a set stands for all of them.
  if (sets.length > 0) return sets.includes("model.aeroset.json") ? ["model.aeroset.json"] : sets;
  const known = preferWritable(names.filter((name) => formatForName(name) !== undefined).sort());
  const indexes = known.filter((name) => name.endsWith(".json"));
  // The manifest of an APR set has the extension of its shards.
  const manifests = known.filter((name) => /\.apr$/i.test(name) && !NUMBERED.test(name));
  const stems = new Set([...indexes, ...manifests].map((name) => name.slice(0, name.indexOf("."))));
  const firstParts = new Set(known.filter((name) => NUMBERED.exec(name)?.[2] === "00001").map(setOf));
  return known.filter((name) => {
    const numbered = NUMBERED.exec(name);
    if (numbered === null) return true;
    const [, stem = "", number] = numbered;
    if (stems.has(stem)) return false;
    return number === "00001" || !firstParts.has(setOf(name));
  });
}

/** Beside a model in another format an ONNX export is a copy for running it: only alone it is the model. */
function preferWritable(names: readonly string[]): readonly string[] {
  const writable = names.filter((name) => formatForName(name)?.access !== "read");
  return writable.length > 0 ? writable : names;
}

function setOf(name: string): string {
  return name.replace(NUMBERED, "$1-of-$3$4");
}
