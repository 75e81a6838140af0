import type { Bytes } from "../base/bytes.ts";
import { ofCaller, untilGrace } from "./abort.ts";
import { callersLabel, foreignSource } from "./layers/foreign.ts";
import type { Output, Sink } from "./sink.ts";

/**
 * What a program passes to a call to be used there, at the door: its Sinks, its folders. Their errors become ours, and
 * an abort of the call is answered at once, whatever they wait for.
 */

/** A Sink of the program's own. Its abort never fails: the error that led there is the one to report. */
export function callersSink(sink: Sink, signal: AbortSignal | undefined): Sink {
  const label = callersLabel(sink.label, "sink");
  const start = Number.isSafeInteger(sink.position) ? sink.position : 0;
  let position = 0;
  const wait = (work: () => unknown): Promise<void> =>
    ofCaller(label, signal, async () => {
      await work();
    });
  return {
    label,
    // Counted here: what plans compare with it must not depend on code of others.
    get position() {
      return position;
    },
    append(bytes) {
      position += bytes.byteLength;
      return wait(() => sink.append(bytes));
    },
    ...(sink.reserve && {
      reserve(byteLength: number) {
        const at = position;
        sink.reserve?.(byteLength);
        position += byteLength;
        return at;
      },
    }),
    ...(sink.fill && {
      fill: (offset: number, bytes: Bytes) => wait(() => sink.fill?.(start + offset, bytes)),
    }),
    ...(sink.reopen && {
      reopen: async () => foreignSource((await ofCaller(label, signal, () => sink.reopen?.())) as never),
    }),
    commit: () => wait(() => sink.commit()),
    abort: () => untilGrace(() => sink.abort()),
  };
}

/** A Sink that is still to be opened. If it comes after an abort, nothing is written to it. */
export function callersSinkOf(
  label: string,
  signal: AbortSignal | undefined,
  open: () => Promise<Sink>,
): Promise<Sink> {
  return ofCaller(
    label,
    signal,
    async () => callersSink(await open(), signal),
    (late) => void late.abort(),
  );
}

/** A folder of the program's own. */
export function callersFolder(folder: Output, signal: AbortSignal | undefined): Output {
  const label = callersLabel(folder.label, "folder");
  const name = callersLabel(folder.name, "");
  return {
    label,
    name,
    create: (file) => callersSinkOf(label, signal, async () => folder.create(file)),
    ...(folder.peek && {
      peek: async (file: string) => {
        const found = await ofCaller(label, signal, () => folder.peek?.(file));
        return found && foreignSource(found);
      },
    }),
    ...(folder.replace && {
      replace: (file: string, bytes: Bytes) => ofCaller(label, signal, async () => folder.replace?.(file, bytes)),
    }),
    // It takes back what a call has made, also after an abort.
    ...(folder.remove && { remove: (file: string) => untilGrace(async () => folder.remove?.(file)) }),
  };
}
