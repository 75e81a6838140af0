import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/**
 * Run by jobs/tokenizer.ts in a process of its own: SIDE MODULE TOKENIZER_JSON TEXTS ROUNDS. Prints the milliseconds of
 * every round over all lines, the first round cold, and a digest of the ids, which must be the same on both sides.
 */

const [side, module, tokenizerJson, texts, rounds] = process.argv.slice(2);
const lines = readFileSync(texts, "utf8").split("\n").slice(0, -1);
const json = JSON.parse(readFileSync(tokenizerJson, "utf8"));
const loaded = await import(pathToFileURL(module).href);

const makers = {
  ours() {
    const { vocab } = json.model;
    const tokens = new Array(Object.keys(vocab).length).fill("");
    for (const token of Object.keys(vocab)) tokens[vocab[token]] = token;
    const [pad, unk, cls, sep, mask] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map((token) =>
      tokens.indexOf(token),
    );
    const tokenizer = loaded.createTokenizer({ tokens, special: { pad, unk, cls, sep, mask } });
    return (text) => tokenizer.encode(text, 1e9);
  },
  theirs() {
    const names = {
      unk_token: "[UNK]",
      sep_token: "[SEP]",
      pad_token: "[PAD]",
      cls_token: "[CLS]",
      mask_token: "[MASK]",
    };
    const config = { tokenizer_class: "BertTokenizer", do_lower_case: true, model_max_length: 1e9, ...names };
    const tokenizer = new loaded.PreTrainedTokenizer({ ...json, truncation: null, padding: null }, config);
    return (text) => tokenizer.encode(text);
  },
};

const began = performance.now();
const encode = makers[side]();
const making = performance.now() - began;
const times = [];
let ids = 0;
for (let round = 0; round < Number(rounds); round++) {
  ids = 0;
  const start = performance.now();
  for (const line of lines) ids += encode(line).length;
  times.push(performance.now() - start);
}
const digest = createHash("sha256");
for (const line of lines) digest.update(`${Array.from(encode(line)).join(" ")}\n`);
console.log(JSON.stringify({ making, times, ids, digest: digest.digest("hex") }));
