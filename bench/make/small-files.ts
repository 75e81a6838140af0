import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const FILES = 50_000;
const FOLDER_FILES = 200;
const WORDS = 5000;
/** 2780 bytes per file on average: 139 MB in all. */
const LEAST_BYTES = 200;
const SPREAD_BYTES = 5160;

/** 50 000 files of text in 250 folders, 139 MB. */
export async function makeSmallFiles(folder: string): Promise<void> {
  let state = 1;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 0x1_0000_0000) * below);
  };
  const text = Buffer.from(Array.from({ length: 400_000 }, () => `w${next(WORDS).toString(36)}`).join(" "));
  for (let i = 0; i < FILES; i++) {
    const place = join(folder, `d${String(Math.floor(i / FOLDER_FILES)).padStart(3, "0")}`);
    if (i % FOLDER_FILES === 0) await mkdir(place, { recursive: true });
    const length = LEAST_BYTES + next(SPREAD_BYTES);
    const start = next(text.length - length);
    await writeFile(join(place, `f${String(i).padStart(5, "0")}.txt`), text.subarray(start, start + length));
  }
}
