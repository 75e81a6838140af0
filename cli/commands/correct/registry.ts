import type { CommandEntry } from "../../command.ts";

/** The verbs of `tare correct`, in the order of help. */
export const CORRECT_COMMANDS: readonly CommandEntry[] = [
  {
    name: "correct gen",
    aliases: [{ name: "correct generate" }],
    group: "vault",
    usage: "correct gen FILE",
    summary: "parity for any file, beside it",
    load: async () => (await import("./gen.ts")).correctGenCommand,
  },
  {
    name: "correct verify",
    aliases: [],
    group: "vault",
    usage: "correct verify FILE",
    summary: "is it still the file that was protected?",
    load: async () => (await import("./verify.ts")).correctVerifyCommand,
  },
  {
    name: "correct repair",
    aliases: [],
    group: "vault",
    usage: "correct repair FILE",
    summary: "heal it from its parity, or leave it alone",
    load: async () => (await import("./repair.ts")).correctRepairCommand,
  },
];
