import { UsageError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Output, Sink } from "../../../bytes/sink.ts";
import type { WriteContext, WritePlan } from "../../../model/format.ts";
import { checkWritten } from "../../../model/pieces.ts";
import { hex } from "./footer.ts";
import { APR_VERSION } from "./layout.ts";
import type { SpecImage, SpecPlan } from "./plan.ts";
import { type WrittenFile, writeFile } from "./write-file.ts";

/** Fills a sink with one file of a plan; encrypted ones have another. */
export type FillFile = typeof writeFile;

/** Writes what `planSpec` decided: every file, then the manifest; nothing is visible before all of it is checked. */
export async function writeSpec(
  plan: WritePlan,
  output: Output,
  context: WriteContext,
  fill: FillFile = writeFile,
): Promise<void> {
  const { image } = ownPlan(plan);
  const sinks = new Map<string, Sink>();
  try {
    const written: WrittenFile[] = [];
    for (const file of image.files) {
      const sink = await output.create(file.planned.name);
      sinks.set(file.planned.name, sink);
      written.push(await fill(file, image, sink, context));
    }
    if (image.manifest !== undefined) {
      const sink = await output.create(image.manifest.name);
      sinks.set(image.manifest.name, sink);
      const bytes = encodeUtf8(renderManifest(image, written));
      image.manifest.byteLength = bytes.byteLength;
      await sink.append(bytes);
    }
    await checkWritten(sinks, { name: plan.primary, label: output.label }, context);
    for (const sink of sinks.values()) await sink.commit();
  } catch (error) {
    await Promise.allSettled([...sinks.values()].map((sink) => sink.abort()));
    throw error;
  }
}

/** The manifest of the specification, keys in its order, one tensor on a line. */
function renderManifest({ files }: SpecImage, written: readonly WrittenFile[]): string {
  const shards = files.map(({ planned }, i) => {
    const { byteLength = 0, crc32 = 0 } = written[i] ?? {};
    return `    {"file": ${JSON.stringify(planned.name)}, "size": ${byteLength}, "crc32": "${hex(crc32)}"}`;
  });
  const map = files.flatMap(({ rows }, i) => rows.map(({ name }) => `    ${JSON.stringify(name)}: ${i}`));
  return [
    "{",
    `  "apr_version": "${APR_VERSION}",`,
    '  "sharded": true,',
    `  "shard_count": ${files.length},`,
    `  "shards": [\n${shards.join(",\n")}\n  ],`,
    `  "tensor_shard_map": {\n${map.join(",\n")}\n  }`,
    "}\n",
  ].join("\n");
}

function ownPlan(plan: WritePlan): SpecPlan {
  if ("image" in plan && plan.files.length > 0) return plan as SpecPlan;
  throw new UsageError("usage/apr.container", "Cannot write APR from another format's plan", { source: "plan" });
}
