import { metaInput, metaResult } from "../../../src/api/look/meta.ts";
import type { Bytes } from "../../../src/base/bytes.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, readOptions } from "../../host.ts";
import { rawValue, renderMetadata, renderValue } from "../../render/look/metadata.ts";
import { openOutputFile } from "../../targets/outputs.ts";

export const metaCommand = defineCommand({
  positionals: { names: ["TARGET", "KEY"], min: 1, max: 2 },
  flags: {
    raw: { kind: "switch", summary: "with KEY: a text as it is, line breaks included" },
  },
  details: [
    "Without KEY one line for each key, long arrays shortened. With KEY the whole value, an array with one item on each line. Characters that could change the terminal are escaped, but not by --raw.",
  ],
  examples: [
    { command: "tare meta model.gguf", says: "every key and value" },
    { command: "tare meta model.gguf tokenizer.chat_template --raw", says: "a template, ready for a file" },
    { command: "tare meta model.gguf tokenizer.ggml.tokens", says: "the vocabulary, one token a line" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = "", key] = positionals;
    if (flags.raw === true && key === undefined) {
      const message = "Cannot use --raw without KEY: must be the text of one key";
      throw new UsageError("usage/arguments", message, { source: "command line" });
    }
    const meta = await metaInput(commandHost(context), target, { ...(await readOptions(context)), key });
    if (flags.raw === true && meta.found !== undefined && context.flags.json !== true) {
      await writeRaw(context, rawValue(meta.found.value));
      return EXIT.success;
    }
    await context.show({
      json: () => metaResult(meta),
      text: () => (meta.found === undefined ? renderMetadata(meta.metadata, context) : renderValue(meta.found.value)),
    });
    return EXIT.success;
  },
});

/** Exactly these bytes; only on a terminal a line break follows, so that the prompt begins on its own line. */
async function writeRaw(context: Context, content: Bytes): Promise<void> {
  const { reportPath, terminal } = context;
  if (reportPath !== undefined) {
    const sink = await openOutputFile(context, reportPath);
    await sink.append(content);
    return sink.commit();
  }
  await terminal.writeOut(content);
  if (terminal.outIsTerminal && content.at(-1) !== 0x0a) await terminal.writeOut("\n");
}
