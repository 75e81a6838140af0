import type { Context } from "./context.ts";
import type { ExitCode } from "./exit-codes.ts";
import type { FlagTable, FlagValues } from "./flags.ts";

export type CommandGroup = "look" | "trust" | "move" | "vault" | "embed" | "help";

/** A name that other tools taught people. */
export interface Alias {
  readonly name: string;
  /** The last argument is the output path, where this many are given: `fetch-tensor URL NAME OUT`. */
  readonly outputAfter?: number;
}

/** What help and dispatch know without loading a command's code. */
export interface CommandEntry {
  /** One word, or two for a verb of a group: "vault ls". */
  readonly name: string;
  readonly aliases: readonly Alias[];
  readonly group: CommandGroup;
  /** Without the program's name: "ls TARGET [GLOB]". */
  readonly usage: string;
  readonly summary: string;
  readonly load: () => Promise<Command>;
}

export interface Positionals {
  /** As usage names them; the last one repeats where `max` is higher. */
  readonly names: readonly string[];
  readonly min: number;
  readonly max: number;
}

/** Names of arguments that are files, or targets, which the command reads or changes in their place. */
export const INPUT_NAMES: ReadonlySet<string> = new Set(
  "TARGET VAULT IN FIRST FILE PATH A B SET PART WEIGHTS OLD".split(" "),
);
/** Names of all other arguments. */
export const OTHER_NAMES: ReadonlySet<string> = new Set(
  "OUT NEW DIR URL DESTINATION NAME ENTRY GLOB FROM TO TEXT CODE SHELL update export|embed|strip ls|verify|prune|clear|path".split(
    " ",
  ),
);

export interface Example {
  readonly command: string;
  readonly says: string;
}

export interface Input<F extends FlagTable> {
  readonly flags: FlagValues<F>;
  readonly positionals: readonly string[];
}

/** One verb: what it takes and what it does. */
export interface Command<F extends FlagTable = FlagTable> {
  readonly positionals: Positionals;
  readonly flags: F;
  /** Paragraphs for `--help`, where the summary leaves something to say. */
  readonly details: readonly string[];
  readonly examples: readonly Example[];
  /** "data" commands decide about `-o` themselves; the report of any other one can be sent to a file with it. */
  readonly output: "data" | "report";
  /** Positions of arguments that name something to be written. */
  readonly writes?: readonly number[];
  /** "single file" where what is written can be one file inside a vault; anything else named VAULT::path is refused. */
  readonly vaultOutput?: "single file";
  /** Where else than on disk outputs can go; other addresses are refused. */
  readonly remoteOutput?: "s3";
  run(context: Context, input: Input<F>): Promise<ExitCode>;
}

/** Keeps the flag table's literal types, so that `run` sees each flag's own type. */
export function defineCommand<const F extends FlagTable>(command: Command<F>): Command {
  return command as unknown as Command;
}
