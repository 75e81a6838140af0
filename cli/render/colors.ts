import picocolors from "picocolors";

export type Colors = ReturnType<typeof picocolors.createColors>;

export interface ColorOptions {
  readonly flag: "auto" | "always" | "never" | undefined;
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The flag wins, then NO_COLOR, then FORCE_COLOR; otherwise a terminal that is not dumb gets colours. */
export function chooseColors(options: ColorOptions): Colors {
  return picocolors.createColors(wantsColors(options));
}

export function wantsColors({ flag, isTerminal, env }: ColorOptions): boolean {
  if (flag === "always") return true;
  if (flag === "never") return false;
  if (isSet(env["NO_COLOR"])) return false;
  const forced = env["FORCE_COLOR"];
  if (isSet(forced)) return forced !== "0" && forced !== "false";
  return isTerminal && env["TERM"] !== "dumb";
}

/** no-color.org: present and not empty. */
function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "";
}
