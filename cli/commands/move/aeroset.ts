import { basename } from "node:path";
import { UsageError } from "../../../src/base/errors.ts";
import { formatSize, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { type AerosetUpdateResult, updateOn } from "../../../src/platform/node/verbs/aeroset.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { nodeCommandHost, nodeWriteOptions } from "../../node-host.ts";

export const aerosetCommand = defineCommand({
  positionals: { names: ["update", "SET", "PART"], min: 3, max: 3 },
  flags: {
    part: { kind: "text", value: "N|PATH", summary: "which part to replace; found by its tensors where not given" },
    keep: { kind: "switch", summary: "leave the old part and the old index where they are" },
    "allow-lossy": { kind: "switch", summary: "go on although something of the set or of PART cannot be kept" },
  },
  details: [
    "update replaces one part of a set by the tensors of another model file, usually an .aero. The file must hold exactly the tensors of the part; their types and shapes may differ. It is written under the set's shard numbers, with page and tensor hashes.",
    "The new part and the new index get names of their own, then the JSON is swapped in one step: a reader sees the old set or the new one, never a mixture. No other part is touched.",
    "Keys of the JSON or of the index that the specification does not name cannot be kept: they stop the update (exit 13) unless --allow-lossy.",
  ],
  examples: [
    { command: "tare aeroset update model.aeroset.json layer-7.aero", says: "the part that holds the same tensors" },
    {
      command: "tare aeroset update model.aeroset.json new.aero --part 3 --keep",
      says: "a named one, keeping the old",
    },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [action = "", set = "", replacement = ""] = positionals;
    if (action !== "update") {
      const message = `Cannot run "aeroset ${printable(action)}": must be "aeroset update"`;
      throw new UsageError("usage/arguments", message, { source: "command line" });
    }
    const { part, keep, "allow-lossy": allowLossy } = flags;
    const options = { ...(await nodeWriteOptions(context)), part, keep, allowLossy };
    const result = await updateOn(await nodeCommandHost(context), set, replacement, options);
    await context.tell({ json: () => result, text: () => summary(result) });
    return EXIT.success;
  },
});

function summary({ dryRun, part, set, files: [file], tensorCount }: AerosetUpdateResult): string {
  const verb = dryRun ? "would replace" : "replaced";
  const size = formatSize(file?.byteLength ?? 0);
  return `${verb} part ${part} of ${set} by ${basename(file?.path ?? "")}: ${plural(tensorCount, "tensor")}, ${size}`;
}
