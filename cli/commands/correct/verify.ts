import { formatSize } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { healthText } from "../../../src/operations/correct.ts";
import { type CorrectVerifyResult, verifyOn } from "../../../src/platform/node/verbs/correct.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { nodeCommandHost, nodeReadOptions } from "../../node-host.ts";
import type { Colors } from "../../render/colors.ts";

export const correctVerifyCommand = defineCommand({
  positionals: { names: ["FILE"], min: 1, max: 1 },
  flags: {
    sidecar: { kind: "path", value: "FILE", summary: "the sidecar, where it is not FILE.aerocorrect" },
  },
  details: [
    "Compares the file with the SHA-256 in its sidecar, and every shard with its checksum. Exits 0 where it is the file that was protected, and 5 where it is not; then it says whether tare correct repair can heal it. Damage in the sidecar alone is a warning.",
  ],
  examples: [{ command: "tare correct verify model.safetensors", says: "with model.safetensors.aerocorrect" }],
  output: "report",
  async run(context, { flags, positionals: [path = ""] }) {
    const options = { ...(await nodeReadOptions(context)), sidecar: flags.sidecar };
    const result = await verifyOn(await nodeCommandHost(context), path, options);
    await context.show({ json: () => result, text: () => verdictText(result, context.colors) });
    return result.ok ? EXIT.success : EXIT.integrity;
  },
});

function verdictText(result: CorrectVerifyResult, colors: Colors): string {
  const { state, health, longestBurst, byteLength, expectedByteLength } = result;
  const name = printable(result.file);
  if (state === "intact")
    return `${colors.green("ok")}: ${name} is the file that was protected; ${burstText(longestBurst)}`;
  const length = byteLength === expectedByteLength ? "" : `${byteLength} bytes instead of ${expectedByteLength}, `;
  const facts = `${length}${healthText(health)}`;
  if (state === "damaged") return `${colors.red("damaged")}: ${name}, ${facts}; tare correct repair can heal it`;
  return `${colors.red("damaged")}: ${name}, ${facts}; that is more than parity can heal, or the sidecar is of another file`;
}

/** What a user who relies on parity has to know about it. */
export function burstText(longestBurst: number): string {
  return `up to ${formatSize(longestBurst)} of damage in a row can be healed wherever it is`;
}
