import type { Context } from "./context.ts";
import type { ExitCode } from "./exit-codes.ts";
import type { FlagTable, FlagValues } from "./flags/flags.ts";

export type CommandGroup = "look" | "trust" | "move" | "vault" | "embed" | "help";

/** A name that people know from other tools. */
export interface Alias {
  readonly name: string;
  /** With this many arguments, the last one is the output path: `fetch-tensor URL NAME OUT`. */
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
  /** As usage names them; the last one repeats if `max` is higher. */
  readonly names: readonly string[];
  readonly min: number;
  readonly max: number;
  /** For completion: what an argument can be, if that is one of known words. */
  readonly words?: Readonly<Record<string, () => readonly string[]>>;
}

/** Names of arguments that are files or targets, which the command reads or changes in place. */
export const INPUT_NAMES: ReadonlySet<string> = new Set(
  "TARGET VAULT IN FIRST FILE PATH A B SET PART WEIGHTS OLD".split(" "),
);

/** Names of arguments that are paths too, of what is written, made or served. */
export const PLACE_NAMES: ReadonlySet<string> = new Set(["OUT", "NEW", "DIR"]);

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
  /** Paragraphs for `--help`, if the summary leaves something to say. */
  readonly details: readonly string[];
  readonly examples: readonly Example[];
  /** "data" commands handle `-o` themselves; for any other one, `-o` sends the report to a file. */
  readonly output: "data" | "report";
  /** Positions of arguments that name an output. */
  readonly writes?: readonly number[];
  /** "single file" if the output can be one file inside a vault; otherwise VAULT::path is refused. */
  readonly vaultOutput?: "single file";
  /** Where outputs can go besides the disk; other addresses are refused. */
  readonly remoteOutput?: "s3";
  run(context: Context, input: Input<F>): Promise<ExitCode>;
}

/** Keeps the flag table's literal types, so that `run` sees each flag's own type. */
export function defineCommand<const F extends FlagTable>(command: Command<F>): Command {
  return command as unknown as Command;
}
