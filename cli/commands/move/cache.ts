import { UsageError } from "../../../src/base/errors.ts";
import { formatSize, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { CACHE_BYTES } from "../../../src/platform/node/cache/disk-cache.ts";
import type { OnRefused } from "../../../src/platform/node/cache/folder.ts";
import * as cache from "../../../src/platform/node/cache/index.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode, exitCodeOfFindings } from "../../exit-codes.ts";
import { renderTable } from "../../render/table.ts";

const ACTIONS = ["ls", "list", "verify", "prune", "clear", "path"] as const;
/** As help lists them: "list" is the same as "ls". */
const SHOWN_ACTIONS = ACTIONS.filter((action) => action !== "list");

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
    const { "dry-run": dryRun } = context.flags;
    const call = { env: context.env, signal: context.signal, onRefused: warnOf(context) };
    switch (action) {
      case "ls":
      case "list":
        return showFiles(context, await cache.list(call));
      case "verify":
        return showCheck(context, await cache.verify({ fix: dryRun === true ? false : flags.fix }, call));
      case "prune":
        return showRemoval(context, await cache.prune({ maxSize: flags["max-size"], dryRun }, call));
      case "clear":
        return showRemoval(context, await cache.clear({ dryRun }, call));
      default: {
        const result = await cache.path(call);
        await context.show({ json: () => result, text: () => result.path });
        return EXIT.success;
      }
    }
  },
});

function checkFlags(action: string, flags: { readonly "max-size"?: number; readonly fix?: true }): void {
  const at = { source: "command line" };
  if (!(ACTIONS as readonly string[]).includes(action)) {
    const message = `Cannot run "cache ${printable(action)}": must be one of ${SHOWN_ACTIONS.join(", ")}`;
    throw new UsageError("usage/arguments", message, at);
  }
  const misplaced =
    (flags["max-size"] !== undefined && action !== "prune" && "--max-size") ||
    (flags.fix && action !== "verify" && "--fix");
  if (misplaced) throw new UsageError("usage/arguments", `Cannot use ${misplaced} with "cache ${action}"`, at);
}

/** Says which folders are left alone and which entries are never used, and why. */
function warnOf(context: Context): OnRefused {
  const told = new Set<string>();
  return ({ path, why }, kind) => {
    // A folder is judged when it is listed, and again when something in it is removed.
    const left = kind === "folder" ? "nothing in it is used or removed" : "it is not ours alone, and never used";
    if (!told.has(path)) context.warn(`tare: warning: The cache ${kind} "${path}" ${why}: ${left}`);
    told.add(path);
  };
}

async function showFiles(context: Context, result: cache.CacheListResult): Promise<ExitCode> {
  const { path, byteLength, maxBytes, files } = result;
  const summary = `${formatSize(byteLength)} of ${formatSize(maxBytes)} in ${path}`;
  await context.show({ json: () => result, text: () => renderFiles(context, files, summary) });
  return EXIT.success;
}

function renderFiles(context: Context, files: cache.CacheListResult["files"], summary: string): string {
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

async function showCheck(context: Context, result: cache.CacheVerifyResult): Promise<ExitCode> {
  const { ok, checked, findings, removed } = result;
  await context.show({
    json: () => result,
    text: () => {
      const verdict = ok ? context.colors.green("ok") : context.colors.red("damaged");
      const lines = findings.map(({ at, message }) => `${printable(at.source)}: ${message}`);
      const fixed = removed === 0 ? "" : `, ${plural(removed, "damaged entry", "damaged entries")} removed`;
      const what = `${plural(checked.entries, "entry", "entries")}, ${formatSize(checked.bytes)} checked${fixed}`;
      return [...lines, `${verdict}: ${what}`].join("\n");
    },
  });
  return exitCodeOfFindings(findings);
}

async function showRemoval(context: Context, result: cache.CachePruneResult): Promise<ExitCode> {
  const { path, dryRun, removed, left } = result;
  await context.tell({
    json: () => result,
    text: () => {
      const verb = dryRun ? "would remove" : "removed";
      const what = `${plural(removed.entries, "entry", "entries")}, ${formatSize(removed.bytes)}`;
      return `${verb} ${what}; ${formatSize(left.bytes)} left in ${path}`;
    },
  });
  return EXIT.success;
}
