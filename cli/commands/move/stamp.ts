import { stampInput } from "../../../src/api/move/stamp.ts";
import { decodeEntered, type MetadataEdit } from "../../../src/operations/stamp.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { readFlagFile } from "../../flags/files.ts";
import { enteredValues } from "../../flags/values.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { renderStamp } from "../../render/look/differences.ts";

export const stampCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: {
    set: { kind: "list", value: "K=V", summary: "give key K the value V: JSON, or text as it is; repeatable" },
    unset: { kind: "list", value: "K", summary: "remove key K; repeatable" },
    from: { kind: "path", value: "FILE", summary: "set every key of the JSON object in FILE" },
    rewrite: { kind: "switch", summary: "write the whole file again, even if the room suffices" },
    unsign: { kind: "switch", summary: "leave out the signature inside a signed file" },
  },
  details: [
    "The tensors are not touched. Where the room before them suffices, only the bytes that change are written, into the file itself: a journal beside it lets the next tare stamp finish what a crash interrupts. Else, and with -o OUT or --rewrite, the file is written anew and takes the old one's place when it is complete.",
    "A key keeps its type where the value fits it: 8 stays u32 in GGUF and text where there was text. New keys get u32, i32, f32, bool, string or arrays of them in GGUF, JSON's types in AERO and APR, and text in SafeTensors. Keys that say where tensors are cannot be edited.",
    "What would be written is opened and compared before the first byte is written.",
  ],
  examples: [
    { command: "tare stamp model.gguf --set general.name='My model'", says: "a new name, in place if it fits" },
    { command: "tare stamp model.apr --set license=MIT --unset notes -o out.apr", says: "leaves model.apr as it is" },
    { command: "tare stamp model.safetensors --from card.json", says: "every key of a JSON file" },
  ],
  output: "data",
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [target = ""] = positionals;
    const edits = await collectEdits(flags, context.signal);
    const { output } = context.flags;
    const { result, changes } = await stampInput(commandHost(context), target, edits, {
      ...(await writeOptions(context)),
      onNote: (text) => context.note(`tare: note: ${text}`),
      rewrite: flags.rewrite,
      unsign: flags.unsign,
      output,
    });
    if (output === "-" && !result.dryRun) return EXIT.success;
    await context.tell({
      json: () => result,
      text: () => renderStamp(result, { path: output ?? result.path, changes }),
    });
    return EXIT.success;
  },
});

interface EditFlags {
  readonly set?: readonly string[];
  readonly unset?: readonly string[];
  readonly from?: string;
}

/** The edits of the file come first, so that typed ones win. */
async function collectEdits(
  { set = [], unset = [], from }: EditFlags,
  signal: AbortSignal,
): Promise<readonly MetadataEdit[]> {
  const edits: MetadataEdit[] = [];
  if (from !== undefined) {
    const bytes = await readFlagFile(from, { kind: "data", action: `Cannot read "${from}" for --from`, signal });
    for (const [key, entered] of decodeEntered(bytes, from)) edits.push({ kind: "set", key, entered });
  }
  for (const [key, entered] of enteredValues(set)) edits.push({ kind: "set", key, entered });
  for (const key of unset) edits.push({ kind: "unset", key });
  return edits;
}
