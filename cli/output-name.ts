import type { Format } from "../src/model/format.ts";

/** "out of a/b/model-00001-of-00003.gguf": the name that files made from an input get, with the format's extension. */
export function outputBaseName(label: string, format: Format): string {
  const last =
    label
      .replace(/[?#].*$/s, "")
      .split(/[\\/]/)
      .filter((part) => part !== "")
      .at(-1) ?? "";
  const stem = last
    .replace(/\.(index|aeroset)\.json$/i, "")
    .replace(/\.[A-Za-z][A-Za-z0-9]{1,15}$/, "")
    .replace(/-\d{5}-of-\d{5}$/, "");
  // A label such as "standard input" or "-" names no file.
  const usable = /^[\p{L}\p{N}_][\p{L}\p{N}._+-]*$/u.test(stem) ? stem : "model";
  return `${usable}${format.extensions[0] ?? ""}`;
}
