/** How many terminal cells a text takes, approximately: East Asian wide and emoji two, combining marks none. */
export function textWidth(text: string): number {
  // Nearly every name is plain ASCII, and a listing may hold a hundred thousand of them.
  if (/^[ -~]*$/.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += cellWidth(character.codePointAt(0) ?? 0);
  return width;
}

/** Wide ranges of Unicode's EastAsianWidth table, joined if the gap holds nothing that appears in names. */
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1faff],
  [0x20000, 0x3fffd],
];

function cellWidth(point: number): number {
  if (point < 0x300) return 1;
  const combining = (point >= 0x300 && point <= 0x36f) || (point >= 0xfe00 && point <= 0xfe0f) || point === 0x200d;
  if (combining) return 0;
  return WIDE.some(([low, high]) => point >= low && point <= high) ? 2 : 1;
}

/** At most `width` cells; an ellipsis replaces the end if something is cut. */
export function cutEnd(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  let kept = "";
  let used = 1; // the ellipsis
  for (const character of text) {
    used += cellWidth(character.codePointAt(0) ?? 0);
    if (used > width) break;
    kept += character;
  }
  return `${kept}…`;
}

/** At most `width` cells, with the middle removed: tensor names differ at both ends. */
export function cutMiddle(text: string, width: number): string {
  const total = textWidth(text);
  if (total <= width) return text;
  const characters = [...text];
  const head = Math.ceil((width - 1) / 2);
  let start = "";
  let end = "";
  for (const character of characters) {
    if (textWidth(start + character) > head) break;
    start += character;
  }
  for (const character of characters.reverse()) {
    if (textWidth(character + end) > width - 1 - textWidth(start)) break;
    end = character + end;
  }
  return `${start}…${end}`;
}

export function padEnd(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - textWidth(text)));
}

export function padStart(text: string, width: number): string {
  return " ".repeat(Math.max(0, width - textWidth(text))) + text;
}

/** Breaks a paragraph at spaces; words longer than the line get their own line. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && textWidth(line) + 1 + textWidth(word) > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return line === "" ? lines : [...lines, line];
}
