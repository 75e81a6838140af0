import { formatSize, plural } from "../../src/base/figures.ts";

/** The counts of verify in plain words: "39 tensor hashes", "1 control region", "2.82 MB". */
export function countedText(what: string, count: number): string {
  if (what === "bytes") return formatSize(count);
  if (what === "digestBytes") return `${formatSize(count)} hashed`;
  if (what === "vaultBytes") return `${formatSize(count)} proven by the vault`;
  const words = what.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  if (what.endsWith("Bytes")) return `${formatSize(count)} of ${words.slice(0, -" bytes".length)}`;
  return plural(count, singular(words), words);
}

function singular(words: string): string {
  if (words.endsWith("ies")) return `${words.slice(0, -"ies".length)}y`;
  return words.replace(/(?<=sh|ch|x|ss)es$|s$/, "");
}
