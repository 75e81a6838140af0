import type { Alias, Command, CommandEntry } from "../command.ts";
import { CORRECT_COMMANDS } from "./correct/registry.ts";
import { VAULT_COMMANDS } from "./vault/registry.ts";

/** The one list of commands, in the order of help. Only the code of the command that runs is loaded. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: "inspect",
    aliases: [{ name: "inspect-set" }],
    group: "look",
    usage: "inspect TARGET…",
    summary: "what the model is, on one screen",
    load: async () => (await import("./look/inspect.ts")).inspectCommand,
  },
  {
    name: "ls",
    aliases: [{ name: "list" }, { name: "tensors" }],
    group: "look",
    usage: "ls TARGET… [GLOB…]",
    summary: "tensors of a model, entries of an archive",
    load: async () => (await import("./look/ls.ts")).lsCommand,
  },
  {
    name: "meta",
    aliases: [],
    group: "look",
    usage: "meta TARGET [KEY]",
    summary: "every key of the metadata, or one whole value",
    load: async () => (await import("./look/meta.ts")).metaCommand,
  },
  {
    name: "map",
    aliases: [],
    group: "look",
    usage: "map TARGET",
    summary: "byte layout: sections, tensors, gaps",
    load: async () => (await import("./look/map.ts")).mapCommand,
  },
  {
    name: "diff",
    aliases: [],
    group: "look",
    usage: "diff A B",
    summary: "what differs, across formats",
    load: async () => (await import("./look/diff.ts")).diffCommand,
  },
  {
    name: "stats",
    aliases: [],
    group: "look",
    usage: "stats TARGET [GLOB]",
    summary: "min, max, mean, std, NaN, histogram",
    load: async () => (await import("./look/stats.ts")).statsCommand,
  },
  {
    name: "view",
    aliases: [],
    group: "look",
    usage: "view TARGET",
    summary: "one target in the viewer, in your browser",
    load: async () => (await import("./look/view.ts")).viewCommand,
  },
  {
    name: "verify",
    aliases: [{ name: "validate" }],
    group: "trust",
    usage: "verify TARGET…",
    summary: "check structure, content and digests",
    load: async () => (await import("./trust/verify.ts")).verifyCommand,
  },
  {
    name: "sign",
    aliases: [],
    group: "trust",
    usage: "sign TARGET --key FILE",
    summary: "sign a file in place, or beside it",
    load: async () => (await import("./trust/sign.ts")).signCommand,
  },
  {
    name: "keygen",
    aliases: [],
    group: "trust",
    usage: "keygen -o NAME",
    summary: "a pair of keys: NAME.key and NAME.pub",
    load: async () => (await import("./trust/keygen.ts")).keygenCommand,
  },
  {
    name: "cat",
    aliases: [{ name: "fetch-tensor", outputAfter: 3 }],
    group: "move",
    usage: "cat TARGET NAME",
    summary: "the bytes of one tensor",
    load: async () => (await import("./move/cat.ts")).catCommand,
  },
  {
    name: "extract",
    aliases: [],
    group: "move",
    usage: "extract TARGET [GLOB…] -o DIR",
    summary: "tensors as files of their own",
    load: async () => (await import("./move/extract.ts")).extractCommand,
  },
  {
    name: "convert",
    aliases: [{ name: "import" }, { name: "export" }],
    group: "move",
    usage: "convert IN OUT",
    summary: "any model format to any other, streaming",
    load: async () => (await import("./move/convert.ts")).convertCommand,
  },
  {
    name: "upgrade",
    aliases: [],
    group: "move",
    usage: "upgrade OLD NEW",
    summary: "an old .apr file in the APR v2 layout",
    load: async () => (await import("./move/upgrade.ts")).upgradeCommand,
  },
  {
    name: "stamp",
    aliases: [],
    group: "move",
    usage: "stamp TARGET --set K=V",
    summary: "edit metadata, leave the tensors alone",
    load: async () => (await import("./move/stamp.ts")).stampCommand,
  },
  {
    name: "shard",
    aliases: [],
    group: "move",
    usage: "shard IN -o DIR --max-size S",
    summary: "cut a model into files of at most S",
    load: async () => (await import("./move/shard.ts")).shardCommand,
  },
  {
    name: "merge",
    aliases: [],
    group: "move",
    usage: "merge FIRST -o OUT",
    summary: "one file from a set of shards",
    load: async () => (await import("./move/merge.ts")).mergeCommand,
  },
  {
    name: "push",
    aliases: [],
    group: "move",
    usage: "push PATH s3://BUCKET/KEY",
    summary: "resumable, conditional upload of a file or set",
    load: async () => (await import("./move/push.ts")).pushCommand,
  },
  {
    name: "pull",
    aliases: [],
    group: "move",
    usage: "pull URL -o DIR",
    summary: "resumable, parallel, verified mirror",
    load: async () => (await import("./move/pull.ts")).pullCommand,
  },
  {
    name: "quantize",
    aliases: [],
    group: "move",
    usage: "quantize IN OUT -t TYPE",
    summary: "floats to blocks of 8, 5 or 4 bits",
    load: async () => (await import("./move/quantize.ts")).quantizeCommand,
  },
  {
    name: "dequantize",
    aliases: [],
    group: "move",
    usage: "dequantize IN OUT -t TYPE",
    summary: "quantised blocks to floats",
    load: async () => (await import("./move/dequantize.ts")).dequantizeCommand,
  },
  {
    name: "serve",
    aliases: [],
    group: "move",
    usage: "serve PATH",
    summary: "hand out a folder or a vault over HTTP and WebDAV; the viewer at /",
    load: async () => (await import("./move/serve.ts")).serveCommand,
  },
  {
    name: "cache",
    aliases: [],
    group: "move",
    usage: "cache ls|verify|prune|clear|path",
    summary: "what is kept of remote files",
    load: async () => (await import("./move/cache.ts")).cacheCommand,
  },
  {
    name: "aeroset",
    aliases: [],
    group: "move",
    usage: "aeroset update SET PART",
    summary: "replace one part of a set",
    load: async () => (await import("./move/aeroset.ts")).aerosetCommand,
  },
  ...VAULT_COMMANDS,
  ...CORRECT_COMMANDS,
  {
    name: "embed",
    aliases: [],
    group: "embed",
    usage: "embed WEIGHTS [TEXT…|-]",
    summary: "vectors of sentences; search by meaning",
    load: async () => (await import("./embed/embed.ts")).embedCommand,
  },
  {
    name: "demo",
    aliases: [],
    group: "help",
    usage: "demo [DIR]",
    summary: "make a small model, try everything on it",
    load: async () => (await import("./help/demo.ts")).demoCommand,
  },
  {
    name: "doctor",
    aliases: [],
    group: "help",
    usage: "doctor",
    summary: "what this machine offers, how fast",
    load: async () => (await import("./help/doctor.ts")).doctorCommand,
  },
  {
    name: "explain",
    aliases: [],
    group: "help",
    usage: "explain [CODE]",
    summary: "what an error code means and what to do",
    load: async () => (await import("./help/explain.ts")).explainCommand,
  },
  {
    name: "completion",
    aliases: [],
    group: "help",
    usage: "completion bash|zsh|fish",
    summary: "a completion script for your shell",
    load: async () => (await import("./help/completion.ts")).completionCommand,
  },
];

export interface FoundCommand {
  readonly entry: CommandEntry;
  readonly alias: Alias | undefined;
}

/** Finds a command by name or alias. */
export function findCommand(name: string): FoundCommand | undefined {
  for (const entry of COMMANDS) {
    if (entry.name === name) return { entry, alias: undefined };
    const alias = entry.aliases.find((candidate) => candidate.name === name);
    if (alias !== undefined) return { entry, alias };
  }
  return undefined;
}

/** True for a word that needs a verb after it: "vault". */
export function isGroup(name: string): boolean {
  return COMMANDS.some((entry) => entry.name.startsWith(`${name} `));
}

/** Every name that can be typed. */
export function commandNames(): string[] {
  return COMMANDS.flatMap((entry) => [entry.name, ...entry.aliases.map((alias) => alias.name)]);
}

/** Every command with its code, for completion scripts and the documentation's tests. */
export async function loadCommands(): Promise<readonly { readonly entry: CommandEntry; readonly command: Command }[]> {
  return Promise.all(COMMANDS.map(async (entry) => ({ entry, command: await entry.load() })));
}
