import { UsageError } from "../../../src/base/errors.ts";
import { formatRate, formatSize, formatTime, plural } from "../../../src/base/figures.ts";
import type { PullResult } from "../../../src/platform/node/pull/index.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { nodeCommandHost, nodeWriteOptions } from "../../node-host.ts";
import { requireOutput } from "../../targets/outputs.ts";

export const pullCommand = defineCommand({
  positionals: { names: ["URL"], min: 1, max: 1 },
  flags: {
    mirror: { kind: "list", value: "URL", summary: "a folder elsewhere with the same files; repeatable" },
    "limit-rate": { kind: "size", value: "RATE", summary: "most bytes a second, over all connections: 20MB" },
    include: { kind: "list", value: "GLOB", summary: "only tensors that match, as a smaller model; repeatable" },
  },
  details: [
    "Mirrors a file or a whole set (AEROSET, sharded SafeTensors, sharded GGUF) into DIR, over several connections. What was fetched is kept when a pull ends early, whatever ends it: run the same command again. Files that are here and current are not fetched again.",
    "Everything is compared with the digests there are before it gets its name: pages as they arrive, whole files by the SHA-256 of their index. A set's index comes last.",
    "With --include only the needed ranges are fetched, and what is written is a model of its own in the same format.",
  ],
  examples: [
    { command: "tare pull https://host/model.aeroset.json -o models", says: "a set with all its parts" },
    { command: "tare pull URL -o DIR --mirror https://b/m/ --limit-rate 20MB", says: "two servers, 20 MB/s" },
    { command: 'tare pull URL -o DIR --include "*.layers.0.*"', says: "one layer of a model" },
  ],
  output: "data",
  async run(context, { flags, positionals: [url = ""] }) {
    const directory = requireOutput(context, "a directory");
    const { mirror, include, "limit-rate": limitRate } = flags;
    if (limitRate === 0) {
      const message = "Cannot use --limit-rate 0: must be at least 1 byte a second";
      throw new UsageError("usage/arguments", message, { source: "command line" });
    }
    const { pullOn } = await import("../../../src/platform/node/pull/index.ts");
    const options = { ...(await nodeWriteOptions(context, url)), mirror, include, limitRate };
    const result = await pullOn(await nodeCommandHost(context), url, directory, options);
    await context.tell({ json: () => result, text: () => summary(result, directory) });
    return EXIT.success;
  },
});

function summary({ files, byteLength, dryRun, seconds }: PullResult, directory: string): string {
  const what = `${plural(files.length, "file")}, ${formatSize(byteLength)}`;
  if (dryRun) return `would pull ${what} into ${directory}`;
  const fetched = files.reduce((total, { fetchedBytes }) => total + fetchedBytes, 0);
  if (fetched === 0) return `${directory} is up to date: ${what}`;
  const resumed = files.reduce((total, { resumedBytes }) => total + resumedBytes, 0);
  const earlier = resumed === 0 ? "" : `, ${formatSize(resumed)} were here`;
  const milliseconds = seconds * 1000;
  const speed = `${formatSize(fetched)} in ${formatTime(milliseconds)}, ${formatRate(fetched, milliseconds)}`;
  return `pulled ${what} into ${directory} (${speed}${earlier})`;
}
