import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { makeXorshift } from "../builders/vault-content.ts";
import { TARE } from "../cli/run-tare.ts";
import { Random } from "../fuzz/random.ts";

/** One campaign on one vault: writers, killers and readers at random. */
export interface SoakOptions {
  /** A folder of its own. */
  readonly folder: string;
  readonly seed: number;
  /** Changes that are begun in all; also ended by `until`. */
  readonly changes: number;
  readonly until?: (() => boolean) | undefined;
  readonly writers: number;
  /** "long" is above what is copied for every change. */
  readonly size: "short" | "long";
  readonly lane: "encrypted" | "plain";
}

/** What a campaign came to; empty problems where every change that was reported is there. */
export interface SoakReport {
  readonly changes: number;
  readonly reported: number;
  readonly killed: number;
  readonly refused: number;
  readonly reads: number;
  readonly problems: readonly string[];
}

const BASE_BYTES = { short: 600_000, long: 17 << 20 } as const;
const ABSENT = "absent";
const PASSWORD = "soak and rinse";

/** What may be in a place of the vault: one thing after a change that was reported, several after one that was killed. */
type Possible = ReadonlySet<string>;

/** Runs a campaign. Each writer has a directory of its own, so that what must be there follows from its own changes. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const campaign = new Campaign(options);
  await campaign.prepare();
  await campaign.run();
  return campaign.judge();
}

class Campaign {
  readonly #options: SoakOptions;
  readonly #vault: string;
  readonly #base: Uint8Array;
  readonly #possible = new Map<string, Possible>();
  readonly #problems: string[] = [];
  readonly #random: Random;
  #begun = 0;
  #reported = 0;
  #killed = 0;
  #refused = 0;
  #reads = 0;
  #isOver = false;

  constructor(options: SoakOptions) {
    this.#options = options;
    this.#vault = join(options.folder, "v.aerovault");
    this.#base = makeXorshift(BigInt(options.seed) + 1n, BASE_BYTES[options.size]);
    this.#random = new Random(options.seed);
  }

  async prepare(): Promise<void> {
    const { folder, lane } = this.#options;
    mkdirSync(join(folder, "in"), { recursive: true });
    writeFileSync(join(folder, "base"), this.#base);
    const create = lane === "plain" ? ["--no-encryption"] : [];
    await this.#must("vault", "create", this.#vault, "--profile", "fast", ...create);
    await this.#must("vault", "add", this.#vault, join(folder, "base"));
    this.#possible.set("base", new Set([digestOf(this.#base)]));
  }

  async run(): Promise<void> {
    const writers = Array.from({ length: this.#options.writers }, (_, i) => this.#write(`w${i}`));
    const reader = this.#read();
    await Promise.all(writers);
    this.#isOver = true;
    await reader;
  }

  /** Everything that was reported is there with its bytes, nothing else is, and the next writer gets through. */
  async judge(): Promise<SoakReport> {
    const { folder } = this.#options;
    await this.#expect(0, "vault", "mkdir", this.#vault, "later");
    await this.#expect(0, "vault", "scrub", this.#vault);
    const out = join(folder, "out");
    await this.#expect(0, "vault", "extract", this.#vault, "-o", out);
    const found = new Map(filesBelow(out).map((path) => [relative(out, path), digestOf(readFileSync(path))]));
    for (const [path, possible] of this.#possible) {
      const digest = found.get(path) ?? ABSENT;
      if (!possible.has(digest)) this.#problems.push(`${path}: ${digest === ABSENT ? "is gone" : "has other bytes"}`);
      found.delete(path);
    }
    for (const path of found.keys()) this.#problems.push(`${path}: nobody put it there`);
    const litter = readdirSync(folder).filter((name) => /\.lock|tare-(partial|header)/.test(name));
    if (litter.length > 0) this.#problems.push(`left beside the vault: ${litter.join(", ")}`);
    return {
      changes: this.#begun,
      reported: this.#reported,
      killed: this.#killed,
      refused: this.#refused,
      reads: this.#reads,
      problems: this.#problems,
    };
  }

  async #write(name: string): Promise<void> {
    const { changes, until } = this.#options;
    const paths: string[] = [];
    while (this.#begun < changes && until?.() !== true && this.#problems.length === 0) {
      const number = this.#begun++;
      const dice = this.#random.below(100);
      if (dice < 60 || paths.length === 0) {
        const path = `${name}/f${number % 7}`;
        await this.#add(name, path, number);
        if (!paths.includes(path)) paths.push(path);
      } else if (dice < 85) {
        await this.#move(paths[number % paths.length] as string, `${name}/m${number}`, paths);
      } else {
        await this.#remove(paths.splice(number % paths.length, 1)[0] as string);
      }
    }
  }

  async #add(name: string, path: string, number: number): Promise<void> {
    const bytes = makeXorshift(BigInt(this.#options.seed * 1000 + number + 7), 20_000 + this.#random.below(900_000));
    const file = join(this.#options.folder, "in", `${name}-${path.split("/")[1]}`, path.split("/")[1] as string);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, bytes);
    const before = this.#at(path);
    this.#possible.set(path, new Set([...before, digestOf(bytes)]));
    if ((await this.#change("vault", "add", this.#vault, file, "--to", name)) === "done") {
      this.#possible.set(path, new Set([digestOf(bytes)]));
    }
  }

  async #move(from: string, to: string, paths: string[]): Promise<void> {
    const before = this.#at(from);
    this.#possible.set(to, new Set([...before, ABSENT]));
    this.#possible.set(from, new Set([...before, ABSENT]));
    const outcome = await this.#change("vault", "mv", this.#vault, from, to);
    // A refusal says that there was nothing to move; a kill says nothing.
    if (outcome === "done") this.#possible.set(from, new Set([ABSENT])).set(to, without(before, ABSENT));
    if (outcome === "refused") this.#possible.set(from, before).set(to, new Set([ABSENT]));
    if (outcome !== "refused") paths.push(to);
    if (outcome === "done") paths.splice(paths.indexOf(from), 1);
  }

  async #remove(path: string): Promise<void> {
    const before = this.#at(path);
    this.#possible.set(path, new Set([...before, ABSENT]));
    const outcome = await this.#change("vault", "rm", this.#vault, path);
    if (outcome === "done") this.#possible.set(path, new Set([ABSENT]));
  }

  #at(path: string): Possible {
    return this.#possible.get(path) ?? new Set([ABSENT]);
  }

  /** Runs a change, and ends some of them at any moment. */
  async #change(...args: readonly string[]): Promise<"done" | "refused" | "killed"> {
    const child = this.#start(args);
    const dice = this.#random.below(100);
    const after = this.#random.below(900);
    const timer = dice < 40 ? setTimeout(() => child.kill(dice < 30 ? "SIGKILL" : "SIGINT"), after) : undefined;
    const { code, err } = await ended(child);
    clearTimeout(timer);
    this.#checkMemory(err);
    if (code === 0) {
      this.#reported++;
      return "done";
    }
    if (code === null || code === 130) {
      this.#killed++;
      return "killed";
    }
    this.#refused++;
    // Paths that are not there after a kill, and a vault that was changed meanwhile, are refusals; anything else is not.
    if (!/usage\/vault|source\/vault\.(locked|changed)|not-found/.test(err)) {
      this.#problems.push(`${args.slice(0, 2).join(" ")} ended with ${code}: ${err.trim().slice(-300)}`);
    }
    return "refused";
  }

  /** Readers at all times: whatever they see opens, and the file that nobody touches is in it. */
  async #read(): Promise<void> {
    while (!this.#isOver) {
      const { code, out, err } = await this.#tare("vault", "ls", this.#vault, "--json");
      this.#reads++;
      this.#checkMemory(err);
      if (code !== 0 || !out.includes('"base"')) {
        // A file that is changed while it is being opened is told; the next try sees the new one.
        if (!/source\/(file\.)?changed|changed while/.test(err)) {
          this.#problems.push(`a reader ended with ${code}: ${err.trim().slice(-300)}`);
        }
      }
    }
  }

  /** Nobody puts an older vault there: who says so gives a false alarm. */
  #checkMemory(err: string): void {
    if (/is older than/.test(err)) this.#problems.push(`a false alarm: ${err.trim().slice(-300)}`);
  }

  async #must(...args: readonly string[]): Promise<void> {
    const { code, err } = await this.#tare(...args);
    if (code !== 0) throw new Error(`tare ${args.join(" ")} ended with ${code}: ${err}`);
  }

  async #expect(want: number, ...args: readonly string[]): Promise<void> {
    const { code, err } = await this.#tare(...args);
    if (code !== want)
      this.#problems.push(`${args.slice(0, 2).join(" ")} ended with ${code}: ${err.trim().slice(-300)}`);
  }

  async #tare(...args: readonly string[]): Promise<Ended> {
    return ended(this.#start(args));
  }

  #start(args: readonly string[]): ChildProcess {
    const { folder, lane } = this.#options;
    const password = lane === "encrypted" ? { TARE_PASSWORD: PASSWORD } : { TARE_PASSWORD: "" };
    return spawn(process.execPath, [TARE, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NO_COLOR: "1", TARE_CACHE_SIZE: "0", XDG_STATE_HOME: join(folder, "state"), ...password },
    });
  }
}

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function ended(child: ChildProcess): Promise<Ended> {
  const pieces = { out: [] as Buffer[], err: [] as Buffer[] };
  child.stdout?.on("data", (piece: Buffer) => pieces.out.push(piece));
  child.stderr?.on("data", (piece: Buffer) => pieces.err.push(piece));
  return new Promise((settle, fail) => {
    child.on("error", fail);
    child.on("close", (code) => {
      settle({ code, out: Buffer.concat(pieces.out).toString(), err: Buffer.concat(pieces.err).toString() });
    });
  });
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

function without(set: Possible, one: string): Possible {
  return new Set([...set].filter((other) => other !== one));
}

function digestOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
