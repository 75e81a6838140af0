import { type ChildProcess, spawn, spawnSync } from "node:child_process";

/** A terminal of its own, at which a test types: `script` makes one on Linux and nothing else is needed. */
export class TypingTerminal {
  readonly #child: ChildProcess;
  readonly #end: Promise<number | null>;
  #seen = "";
  #look: () => void = () => undefined;

  /** True where such a terminal can be had: the flags are those of util-linux. */
  static isPossible(): boolean {
    return spawnSync("script", ["-qec", "true", "/dev/null"], { input: "" }).status === 0;
  }

  constructor(command: string, cwd: string) {
    const env = { ...process.env, NO_COLOR: "1", SHELL: "/bin/sh", TARE_CACHE_SIZE: "0", XDG_STATE_HOME: cwd };
    this.#child = spawn("script", ["-qec", command, "/dev/null"], { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
    this.#child.stdin?.on("error", () => undefined); // a program may end before it reads everything
    this.#child.stdout?.on("data", (piece: Buffer) => {
      this.#seen += piece.toString();
      this.#look();
    });
    this.#end = new Promise((resolve) => this.#child.on("close", resolve));
  }

  /** Everything that was on the screen. */
  get seen(): string {
    return this.#seen.replaceAll("\r", "");
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Resolves when this is on the screen, the second time if `times` is 2. */
  shows(text: string, times = 1): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#look = () => {
        if (this.#seen.split(text).length > times) resolve();
      };
      void this.#end.then(() => reject(new Error(`never shown: ${text}, only: ${this.seen}`)));
      this.#look();
    });
  }

  /** The exit code. */
  async ended(): Promise<number | null> {
    return this.#end;
  }
}
