/**
 * Messages of the library name options: `the option maxShardSize`. Users of the command line know them as flags:
 * `--max-shard-size`. An argument of the library that is a flag here has the flag's name.
 */
export function flagsFor(text: string): string {
  const named = text.replace(/\bPass the option password\b/g, `$&, or set ${PASSWORD_VARIABLES}`);
  return named.replace(
    /\bthe option (?:"([a-z][A-Za-z0-9]*)"|([a-z][A-Za-z0-9]*))(?:: false)?/g,
    (_, quoted, plain) => {
      const name: string = quoted ?? plain;
      return FLAGS[name] ?? `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    },
  );
}

/** Other ways to give a password, which only the command line has. */
const PASSWORD_VARIABLES = "TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND or TARE_PASSWORD";

/** Options whose flag has another name. */
const FLAGS: Readonly<Record<string, string>> = {
  headers: "--header-file",
  output: "-o",
  encryption: "--no-encryption",
  tensorCuts: "--no-tensor-cuts",
  normalize: "--no-normalize",
  token: "--no-token",
  password: "--password-file",
  newPassword: "--new-password-file",
};
