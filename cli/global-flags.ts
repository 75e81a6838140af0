import type { FlagTable, FlagValues } from "./flags.ts";

/** Flags that every command takes. */
export const GLOBAL_FLAGS = {
  json: { kind: "switch", summary: "print one JSON document, the result or the error" },
  output: { kind: "path", short: "o", value: "PATH", summary: "write to PATH instead of standard output" },
  force: { kind: "switch", summary: "replace what exists" },
  "dry-run": { kind: "switch", summary: "say what would be done, write nothing" },
  quiet: { kind: "switch", short: "q", summary: "no notes, no progress" },
  verbose: { kind: "switch", short: "v", summary: "say more: stack traces, full lists" },
  progress: { kind: "choice", choices: ["auto", "json", "none"], summary: "progress on standard error" },
  "no-progress": { kind: "switch", summary: "the same as --progress none" },
  color: {
    kind: "choice",
    choices: ["auto", "always", "never"],
    summary: "colours; NO_COLOR and FORCE_COLOR count too",
  },
  engine: { kind: "choice", choices: ["auto", "portable", "native"], summary: "which primitives to run on" },
  concurrency: { kind: "integer", value: "N", min: 1, max: 256, summary: "workers and connections at once" },
  memory: { kind: "size", value: "SIZE", summary: "most bytes to hold for buffered input" },
  limits: { kind: "path", value: "FILE", summary: 'JSON that moves limits: {"gguf": {"headerBytes": 1e9}}' },
  timeout: { kind: "duration", value: "TIME", summary: "give up on a silent server after TIME (30s)" },
  retries: { kind: "integer", value: "N", max: 100, summary: "ask a failing server again N times (5)" },
  offline: { kind: "switch", summary: "never use the network" },
  header: { kind: "list", value: "K:V", summary: "send a header with HTTP requests; repeatable" },
  "header-file": { kind: "path", value: "FILE", summary: "headers from FILE, one a line: the place for secrets" },
  "allow-origin": { kind: "list", value: "URL", summary: "let a set refer to files at another origin; repeatable" },
  "password-file": {
    kind: "path",
    value: "FILE",
    summary: "the password of encrypted files, - for standard input; else you are asked",
  },
  "no-encryption": {
    kind: "switch",
    summary: "a vault without encryption is meant, whatever was there before",
  },
  help: { kind: "switch", short: "h", summary: "show help" },
} as const satisfies FlagTable;

export type GlobalFlags = FlagValues<typeof GLOBAL_FLAGS>;
