import { UsageError } from "../../../src/base/errors.ts";
import { formatSize, plural } from "../../../src/base/figures.ts";
import { LEAST_PART_BYTES } from "../../../src/bytes/s3/commit.ts";
import type { PushResult } from "../../../src/platform/node/push/index.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { nodeCommandHost, nodeWriteOptions } from "../../node-host.ts";

export const pushCommand = defineCommand({
  positionals: { names: ["PATH", "DESTINATION"], min: 2, max: 2 },
  flags: {
    "part-size": { kind: "size", value: "SIZE", summary: "bytes of one part of an upload, 5 MiB or more (16 MiB)" },
    "follow-links": { kind: "switch", summary: "upload what links lead to, also outside of the folder" },
  },
  details: [
    "PATH is a file, a directory, or the index or first file of a set, which is uploaded whole, its index last. DESTINATION is s3://bucket/key, or s3://bucket/prefix/ to keep the names.",
    "An object appears when it is complete, and never over one that exists, unless --force; of two writers one wins and the other is told. An upload that was interrupted, in whatever way, goes on where it stopped when the command is run again.",
    "Which store, and the key to it, come from AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_PROFILE, as for the AWS tools.",
  ],
  examples: [
    { command: "tare push model.aero s3://models/llama/", says: "one file" },
    { command: "tare push model.aeroset.json s3://models/llama/", says: "a set: every part, then its index" },
    { command: "tare push out/ s3://models/llama/ --concurrency 8", says: "a directory, eight parts at a time" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [path = "", destination = ""] = positionals;
    const { "part-size": partSize, "follow-links": followLinks } = flags;
    checkPartSize(partSize);
    const { pushOn } = await import("../../../src/platform/node/push/index.ts");
    const options = { ...(await nodeWriteOptions(context)), partSize, followLinks };
    const result = await pushOn(await nodeCommandHost(context), path, destination, options);
    await context.tell({ json: () => result, text: () => summary(result) });
    return EXIT.success;
  },
});

function checkPartSize(byteLength: number | undefined): void {
  if (byteLength === undefined || (byteLength >= LEAST_PART_BYTES && byteLength <= 5 * 2 ** 30)) return;
  throw new UsageError("usage/flag-value", `Cannot use --part-size ${byteLength}: must be 5 MiB to 5 GiB`, {
    source: "command line",
  });
}

function summary({ files, byteLength, sentBytes, dryRun }: PushResult): string {
  const lines = files.map(({ url, byteLength: size, state }) => {
    const said = { written: "wrote", present: "already there:", planned: "would write" }[state];
    return `${said} ${url}, ${formatSize(size)}`;
  });
  if (files.length > 1) lines.push(`${plural(files.length, "object")}, ${formatSize(byteLength)}`);
  if (sentBytes < byteLength && !dryRun) lines.push(`sent ${formatSize(sentBytes)}, the rest was there already`);
  return lines.join("\n");
}
