import { stat } from "node:fs/promises";
import { withDoubts } from "../../src/api/host.ts";
import { isTareError, type TareError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { splitInnerPaths } from "../../src/bytes/resolver.ts";
import type { Context, Result } from "../context.ts";
import { describeError, renderError } from "../errors.ts";
import { type ExitCode, exitCodeOf, gravest } from "../exit-codes.ts";
import { chooseColors } from "../render/colors.ts";

/** What a command found out about one target. */
export interface Looked extends Result {
  readonly code: ExitCode;
}

interface SeveralTargets {
  readonly targets: readonly string[];
  readonly look: (target: string) => Promise<Looked>;
}

/**
 * Shows one target, or several of them, each under its name. Of several, one that cannot be read does not hide the
 * others; `--json` has a list with the result or the error of each, and the exit code is that of the gravest.
 */
export async function showTargets(context: Context, { targets, look }: SeveralTargets): Promise<ExitCode> {
  const [only = "", second] = targets;
  if (second === undefined) {
    const looked = await look(only);
    await context.show(looked);
    return looked.code;
  }
  const outcomes = await lookAtEach(context, targets, async (target) => made(await look(target), context));
  const { colors } = context;
  await context.show({
    json: () =>
      outcomes.map(({ target, value, error }) => ({ target, ...(error ? describeError(error) : value?.document) })),
    text: () =>
      outcomes
        .flatMap(({ target, value }) => (value === undefined ? [] : [{ target, text: value.text }]))
        .map(({ target, text }) => `${colors.bold(printable(target))}\n${text}`)
        .join("\n\n"),
  });
  return gravest(outcomes.map(({ value, error }) => value?.code ?? exitCodeOf(error)));
}

/** The form that is wanted, made at once, so that no target stays open until all of them were read. */
interface Made {
  readonly code: ExitCode;
  readonly document?: object;
  readonly text: string;
}

function made({ code, json, text }: Looked, context: Context): Made {
  if (context.flags.json !== true) return { code, text: wholeText(text()) };
  const doubts = context.takeDoubts();
  return { code, text: "", document: withDoubts({ doubts }, json()) as object };
}

function wholeText(text: string | Iterable<string>): string {
  return typeof text === "string" ? text : [...text].join("");
}

/** One of several targets: what was found, or why it could not be read. */
export interface Outcome<T> {
  /** As it was typed, without credentials. */
  readonly target: string;
  readonly value?: T;
  readonly error?: TareError;
}

/** Looks at targets one after the other. Errors of one of several are told, and the next one follows. */
export async function lookAtEach<T>(
  context: Context,
  targets: readonly string[],
  work: (target: string) => Promise<T>,
): Promise<readonly Outcome<T>[]> {
  const outcomes: Outcome<T>[] = [];
  for (const text of targets) {
    const target = withoutSecrets(text);
    try {
      outcomes.push({ target, value: await work(text) });
    } catch (error) {
      if (targets.length === 1 || !isTareError(error) || context.signal.aborted) throw error;
      if (context.flags.json !== true) tellError(context, error);
      outcomes.push({ target, error });
    } finally {
      await context.release();
    }
  }
  return outcomes;
}

/** Addresses may hold keys: in front of the host, and in the query. */
function withoutSecrets(target: string): string {
  if (!/^[a-z][a-z0-9+.-]+:\/\//i.test(target)) return target;
  return target.replace(/\/\/[^/]*@/, "//").replace(/[?#].*/s, "?…");
}

function tellError({ flags, terminal, env }: Context, error: TareError): void {
  const colors = chooseColors({ flag: flags.color, isTerminal: terminal.errIsTerminal, env });
  terminal.writeErr(renderError(error, colors, terminal.errIsTerminal ? terminal.columns : undefined));
}

export interface TargetsAndGlobs {
  readonly targets: readonly string[];
  readonly globs: readonly string[];
}

/**
 * Tells TARGETs from GLOBs, as `ls` takes them: the first argument is a TARGET, and so is each other one that exists as a
 * file, that is inside one (`vault::path`), or that is an address. A folder in its place must end in a slash, because
 * folders of a vault have such names too.
 */
export async function splitTargets([first = "", ...others]: readonly string[]): Promise<TargetsAndGlobs> {
  const targets = [first];
  const globs: string[] = [];
  for (const text of others) ((await isTarget(text)) ? targets : globs).push(text);
  return { targets, globs };
}

async function isTarget(text: string): Promise<boolean> {
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(text)) return true;
  const [outer = ""] = splitInnerPaths(text);
  const facts = (await stat(text).catch(() => undefined)) ?? (await stat(outer).catch(() => undefined));
  return facts?.isDirectory() === true ? /[\\/]$/.test(text) : facts !== undefined;
}
