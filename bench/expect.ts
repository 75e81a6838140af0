import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Workspace } from "./workspace.ts";

/** Throws unless the output holds every word: a program that failed quietly must not look fast. */
export function expectText(output: string, words: readonly string[]): void {
  for (const word of words) {
    if (!output.includes(word)) {
      throw new Error(`Cannot measure: output must hold "${word}", found:\n${output.slice(0, 1000)}`);
    }
  }
}

/** Byte for byte; false at the first difference. */
export async function sameBytes(left: string, right: string): Promise<boolean> {
  if ((await stat(left)).size !== (await stat(right)).size) return false;
  const options = { highWaterMark: 1 << 20 };
  const other = createReadStream(right, options)[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of createReadStream(left, options) as AsyncIterable<Buffer>) {
    for (let done = 0; done < piece.length; ) {
      if (rest.length === 0) {
        const next = await other.next();
        if (next.done === true) return false;
        rest = next.value as Buffer;
      }
      const length = Math.min(piece.length - done, rest.length);
      if (piece.compare(rest, 0, length, done, done + length) !== 0) return false;
      rest = rest.subarray(length);
      done += length;
    }
  }
  return true;
}

/** Throws unless two files hold the same bytes. */
export async function expectSameFile(left: string, right: string): Promise<void> {
  if (!(await sameBytes(left, right))) throw new Error(`Cannot measure: ${left} and ${right} must be the same`);
}

/** Folder names replaced in printed command lines: `$DIR` for the work folder, nothing for the repository. */
export function shortNames(root: string, workspace: Workspace): readonly (readonly [string, string])[] {
  return [
    [workspace.folder, "$DIR"],
    [root, ""],
  ];
}
