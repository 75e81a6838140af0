import { UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { cacheFolder } from "../../src/platform/node/cache-place.ts";
import { CACHE_BYTES } from "../../src/platform/node/disk-cache.ts";
import { type PruneResult, pruneCache } from "../../src/platform/node/disk-cache-folder.ts";
import { type CachedFile, listCache, verifyCache } from "../../src/platform/node/disk-cache-report.ts";
import { foreignFolder } from "../../src/platform/node/own-folder.ts";
import { cacheLimit } from "../cache-limit.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT, type ExitCode, exitCodeOfFindings } from "../exit-codes.ts";
import { formatSize, plural } from "../render/sizes.ts";
import { renderTable } from "../render/table.ts";

const ACTIONS = ["ls", "verify", "prune", "clear", "path"] as const;

const FLAGS = {
  "max-size": { kind: "size", value: "SIZE", summary: "prune: how much may stay" },
  fix: { kind: "switch", summary: "verify: remove what is damaged" },
} as const;

export const cacheCommand = defineCommand({
  positionals: { names: ["ls|verify|prune|clear|path"], min: 1, max: 1 },
  flags: FLAGS,
  details: [
    "What was read of remote files is kept on disk, with checksums, and served again while the server says that the file is the same.",
    `ls lists the files, verify checks every byte, prune removes what was used longest ago, clear removes everything, path says where it is. The cache holds ${formatSize(CACHE_BYTES)} unless TARE_CACHE_SIZE says otherwise; 0 turns it off.`,
  ],
  examples: [
    { command: "tare cache ls", says: "which files, and how much of them" },
    { command: "tare cache verify --fix", says: "find damage and remove it" },
    { command: "tare cache prune --max-size 500MB", says: "keep the 500 MB used last" },
  ],
  output: "report",
  async run(context, { flags, positionals: [action = ""] }) {
    checkFlags(action, flags);
    const folder = cacheFolder(context.env);
    const foreign = action === "path" ? undefined : await foreignFolder(folder);
    if (foreign !== undefined)
      context.warn(`tare: warning: The cache folder "${folder}" ${foreign}: no command uses it`);
    switch (action) {
      case "ls":
        return showFiles(context, folder);
      case "verify":
        return showCheck(context, folder, flags.fix === true ? "remove" : "keep");
      case "prune":
        return showRemoval(context, folder, flags["max-size"] ?? cacheLimit(context.env));
      case "clear":
        return showRemoval(context, folder, 0);
      default:
        await context.show({ json: () => ({ path: folder }), text: () => folder });
        return EXIT.success;
    }
  },
});

function checkFlags(action: string, flags: { readonly "max-size"?: number; readonly fix?: true }): void {
  const at = { source: "command line" };
  if (!(ACTIONS as readonly string[]).includes(action)) {
    const message = `Cannot run "cache ${printable(action)}": must be one of ${ACTIONS.join(", ")}`;
    throw new UsageError("usage/arguments", message, at);
  }
  const misplaced =
    (flags["max-size"] !== undefined && action !== "prune" && "--max-size") ||
    (flags.fix && action !== "verify" && "--fix");
  if (misplaced) throw new UsageError("usage/arguments", `Cannot use ${misplaced} with "cache ${action}"`, at);
}

async function showFiles(context: Context, folder: string): Promise<ExitCode> {
  const files = await listCache(folder);
  const byteLength = files.reduce((sum, file) => sum + file.byteLength, 0);
  const maxBytes = cacheLimit(context.env);
  await context.show({
    json: () => ({ path: folder, byteLength, maxBytes, files }),
    text: () => renderFiles(context, files, `${formatSize(byteLength)} of ${formatSize(maxBytes)} in ${folder}`),
  });
  return EXIT.success;
}

function renderFiles(context: Context, files: readonly CachedFile[], summary: string): string {
  if (files.length === 0) return `nothing cached: ${summary}`;
  const rows = files.map((file) => [
    printable(file.url),
    formatSize(file.fileByteLength),
    formatSize(file.byteLength),
    String(file.entries),
    file.lastUsed.slice(0, 16).replace("T", " "),
  ]);
  const columns = [
    { title: "file", cut: "middle" },
    { title: "size", align: "right" },
    { title: "cached", align: "right" },
    { title: "entries", align: "right" },
    { title: "last used" },
  ] as const;
  return `${renderTable(columns, rows, { width: context.width, styleTitle: context.colors.dim })}\n${summary}`;
}

async function showCheck(context: Context, folder: string, damaged: "keep" | "remove"): Promise<ExitCode> {
  const mode = context.flags["dry-run"] === true ? "keep" : damaged;
  const { entries, bytes, findings, removed } = await verifyCache(folder, { damaged: mode, signal: context.signal });
  const ok = findings.length === 0;
  await context.show({
    json: () => ({ ok, path: folder, checked: { entries, bytes }, findings, removed }),
    text: () => {
      const verdict = ok ? context.colors.green("ok") : context.colors.red("damaged");
      const lines = findings.map(({ at, message }) => `${printable(at.source)}: ${message}`);
      const fixed = removed === 0 ? "" : `, ${plural(removed, "damaged entry", "damaged entries")} removed`;
      const checked = `${plural(entries, "entry", "entries")}, ${formatSize(bytes)} checked${fixed}`;
      return [...lines, `${verdict}: ${checked}`].join("\n");
    },
  });
  return exitCodeOfFindings(findings);
}

async function showRemoval(context: Context, folder: string, maxBytes: number): Promise<ExitCode> {
  const dryRun = context.flags["dry-run"] === true;
  const result: PruneResult = await pruneCache(folder, maxBytes, { mode: dryRun ? "plan" : "remove" });
  const { removed, left } = result;
  await context.show({
    json: () => ({ path: folder, dryRun, ...result }),
    text: () => {
      const verb = dryRun ? "would remove" : "removed";
      const what = `${plural(removed.entries, "entry", "entries")}, ${formatSize(removed.bytes)}`;
      return `${verb} ${what}; ${formatSize(left.bytes)} left in ${folder}`;
    },
  });
  return EXIT.success;
}
