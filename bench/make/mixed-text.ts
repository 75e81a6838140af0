import { readFile, writeFile } from "node:fs/promises";

/** Bytes of the file, to within a line. */
const BYTES = 1_000_000;
const MODULUS = 2 ** 31 - 1;
/** Park and Miller's multiplier for that modulus. */
const MULTIPLIER = 48271;

/** One of these is in about one line of six, so that every path of a tokenizer is used. */
const FOREIGN = [
  "Die Würde des Menschen ist unantastbar; sie zu achten und zu schützen ist Verpflichtung.",
  "L’été dernier, nous étions à Besançon — où le café coûtait 2,50 €.",
  "El señor Muñoz llegó mañana por la mañana, ¿verdad?",
  "Все люди рождаются свободными и равными в своём достоинстве и правах.",
  "我爱北京天安门，今天天气很好。",
  "すべての人間は、生まれながらにして自由であり。",
  "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
  "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतंत्रता",
  "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق",
  "I ❤️ pizza 🍕 and 👩‍👩‍👧‍👦 families 🇫🇷 (really!!!)",
  "See https://example.com/a?b=1&c=2#frag or mail a.b@c.org on 2025-01-16, $3.50 (50%).",
  "for (let i = 0; i < n; i++) { total += a[i] * b[i]; } // O(n)",
];

/** One text per line: sentences of the vocabulary's words, frequent ones more often, and lines in other scripts. */
export async function makeMixedText(path: string, tokenizerJson: string): Promise<void> {
  const { model } = JSON.parse(await readFile(tokenizerJson, "utf8")) as { model: { vocab: Record<string, number> } };
  const words = Object.keys(model.vocab).filter((token) => /^[a-z]{2,}$/.test(token));
  let state = 20251;
  const random = (): number => {
    state = (state * MULTIPLIER) % MODULUS;
    return state / MODULUS;
  };
  // Uniform in the logarithm of the rank, as words are in a language; the vocabulary is ordered by frequency.
  const word = (): string => words[Math.floor(words.length ** random())] ?? "the";
  const sentence = (): string => {
    const length = 4 + Math.floor(random() * 30);
    const parts = Array.from({ length }, (_, i) => (i > 0 && random() < 0.1 ? `${word()}${word()},` : word()));
    return `${(parts[0] ?? "").replace(/^./, (letter) => letter.toUpperCase())} ${parts.slice(1).join(" ")}.`;
  };
  const lines: string[] = [];
  for (let byteLength = 0; byteLength < BYTES; ) {
    const foreign = FOREIGN[Math.floor(random() * FOREIGN.length)] ?? "";
    const line = random() < 1 / 6 ? `${foreign} ${word()}` : sentence();
    lines.push(line);
    byteLength += Buffer.byteLength(line) + 1;
  }
  await writeFile(path, `${lines.join("\n")}\n`);
}
