import { createCipheriv, createHash } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dispatch } from "../../cli/dispatch.ts";
import { describeError } from "../../cli/errors.ts";
import { exitCodeOf } from "../../cli/exit-codes.ts";
import type { Terminal } from "../../cli/terminal/terminal.ts";
import { isTareError, systemError } from "../../src/base/errors.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { smallGguf, smallSafetensors } from "../cli/small-models.ts";
import { withFaults } from "../support/file-faults.ts";

/**
 * Every call of the file system that a command makes fails once, with an error that the system can give there. The command
 * may do without it; else it ends with that error's sentence and exit code. What was there before is as it was, and what is
 * there afterwards under its own name is whole.
 */

const ERRORS = [
  ..."EACCES EPERM EROFS ELOOP ENOTDIR EISDIR ENAMETOOLONG EMFILE ENFILE ENOSPC EDQUOT EFBIG EIO EBUSY ETXTBSY EXDEV".split(
    " ",
  ),
  ..."ENODEV ENXIO ESTALE ENOENT ENOMEM EINVAL ENOTSUP ETIMEDOUT".split(" "),
];
/** `npm run faults` tries every error at every call; the tests try one at each. */
const ERRORS_PER_CALL = process.env["TARE_FAULTS"] === "all" ? ERRORS.length : 1;
/** Every error of one command takes minutes, on a machine that is busy otherwise many. */
const TIMEOUT_MS = 1_200_000 * ERRORS_PER_CALL;

interface Scenario {
  readonly args: readonly string[];
  /** A file that is changed in place, and the command that shows what is in it. */
  readonly edits?: { readonly file: string; readonly show: readonly string[] };
  /** Ends with this exit code where nothing fails. */
  readonly code?: number;
  /** Before the run, without faults. */
  readonly before?: readonly (readonly string[])[];
}

const PLAIN = ["--no-encryption"];
const vaultShow = ["vault", "ls", "v.aerovault", "--long", "--json", ...PLAIN];
const vaultEdit = { file: "v.aerovault", show: vaultShow };

const LOCKED = [["vault", "create", "locked.aerovault", "--password-file", "password"]];

const SCENARIOS: readonly Scenario[] = [
  { args: ["inspect", "m.gguf"] },
  { args: ["inspect", "m.safetensors", "--limits", "limits.json", "--json"] },
  { args: ["ls", "m.gguf"] },
  { args: ["map", "m.gguf"] },
  { args: ["stats", "m.gguf"] },
  { args: ["diff", "m.gguf", "m.safetensors"] },
  { args: ["verify", "m.gguf"] },
  { args: ["verify", "m.safetensors", "--json"] },
  { args: ["ls", "m.gguf", "-o", "report.txt"] },
  { args: ["cat", "m.gguf", "blk.0.attn_norm.weight", "-o", "t.bin"] },
  { args: ["extract", "m.safetensors", "-o", "out"] },
  { args: ["convert", "m.safetensors", "out/c.gguf"] },
  { args: ["convert", "m.safetensors", "c.aero", "--verify", "--uuid", "00".repeat(16)] },
  { args: ["convert", "m.safetensors", "c.apr", "--metadata", "meta.json"] },
  {
    args: ["convert", "m.safetensors", "old.gguf", "--force"],
    edits: { file: "old.gguf", show: ["ls", "old.gguf", "--json"] },
  },
  { args: ["shard", "m.safetensors", "-o", "out", "--max-size", "20"] },
  {
    args: ["merge", "set/m.safetensors.index.json", "-o", "merged.safetensors"],
    before: [["shard", "m.safetensors", "-o", "set", "--max-size", "20"]],
  },
  { args: ["quantize", "wide.safetensors", "q.gguf", "-t", "q8_0"] },
  {
    args: ["dequantize", "q.gguf", "f.gguf", "-t", "f32"],
    before: [["quantize", "wide.safetensors", "q.gguf", "-t", "q8_0"]],
  },
  {
    args: ["stamp", "m.safetensors", "--set", "a=b"],
    edits: { file: "m.safetensors", show: ["inspect", "m.safetensors", "--json"] },
  },
  { args: ["keygen", "-o", "k"] },
  { args: ["sign", "m.gguf", "--key", "k.key"], before: [["keygen", "-o", "k"]] },
  { args: ["correct", "gen", "m.safetensors"] },
  { args: ["correct", "verify", "m.safetensors"], before: [["correct", "gen", "m.safetensors"]] },
  { args: ["correct", "repair", "m.safetensors"], before: [["correct", "gen", "m.safetensors"]] },
  { args: ["demo", "out", "--dry-run"] },
  { args: ["vault", "create", "new.aerovault", "--no-encryption"] },
  { args: ["vault", "ls", "v.aerovault", ...PLAIN] },
  { args: ["vault", "info", "v.aerovault", ...PLAIN] },
  { args: ["vault", "cat", "v.aerovault", "m.gguf", "-o", "copy.gguf", ...PLAIN] },
  { args: ["vault", "extract", "v.aerovault", "-o", "out", ...PLAIN] },
  { args: ["vault", "scrub", "v.aerovault", ...PLAIN] },
  { args: ["ls", "v.aerovault::m.gguf", ...PLAIN] },
  { args: ["vault", "add", "v.aerovault", "m.safetensors", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "mkdir", "v.aerovault", "d", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "rm", "v.aerovault", "m.gguf", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "mv", "v.aerovault", "m.gguf", "n.gguf", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "cp", "v.aerovault", "m.gguf", "n.gguf", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "diff", "v.aerovault", "v.aerovault", ...PLAIN] },
  { args: ["convert", "m.safetensors", "v.aerovault::x.gguf", ...PLAIN], edits: vaultEdit },
  // Too much to be taken at once: it is stored while it comes.
  { args: ["convert", "big.safetensors", "v.aerovault::x.safetensors", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "parity", "v.aerovault", "embed", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "compact", "v.aerovault", ...PLAIN], edits: vaultEdit },
  { args: ["vault", "parity", "v.aerovault", "export", ...PLAIN] },
  { args: ["vault", "repair", "v.aerovault", ...PLAIN], edits: vaultEdit },
  // Deriving keys takes a while: every error of them is for the long run.
  ...(ERRORS_PER_CALL === 1
    ? []
    : [
        { args: ["vault", "create", "new.aerovault", "--password-file", "password"] },
        { args: ["vault", "ls", "locked.aerovault", "--password-file", "password"], before: LOCKED },
      ]),
];

/** Names that a run may leave behind only where removing them is what failed. */
const LITTER = /(^|\/)\.[^/]*(\.tare-|\.lock)/;

let root: string;
beforeAll(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "tare-faults-")));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

interface Outcome {
  readonly code: number;
  readonly error: unknown;
  readonly out: string;
}

/** The command line in this process, with a terminal that keeps what it is shown. */
async function run(args: readonly string[]): Promise<Outcome> {
  let out = "";
  const terminal: Terminal = {
    outIsTerminal: false,
    errIsTerminal: false,
    columns: 80,
    writeOut: async (content) => {
      out += typeof content === "string" ? content : Buffer.from(content).toString("latin1");
    },
    writeErr: () => undefined,
  };
  const cleanups = new Set<() => void>();
  const env = { TARE_CACHE_SIZE: "0", XDG_CACHE_HOME: join(root, "cache"), HOME: root };
  const world = {
    env,
    terminal,
    signal: new AbortController().signal,
    onExit: (f: () => void) => void cleanups.add(f),
  };
  try {
    return { code: await dispatch(args, world), error: undefined, out };
  } catch (error) {
    return { code: exitCodeOf(error), error, out };
  } finally {
    for (const cleanup of cleanups) cleanup();
  }
}

/** Every file below a folder with a digest of what is in it. */
function snapshot(folder: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const path = join(folder, name);
    if (statSync(path).isFile()) files.set(name, createHash("sha256").update(readFileSync(path)).digest("hex"));
  }
  return files;
}

/** Files of a folder that this process has open, once what is closed in the background had its time. */
async function leftOpen(folder: string): Promise<readonly string[]> {
  for (let waits = 0; ; waits++) {
    const open = openFiles().filter((path) => path.startsWith(folder));
    if (open.length === 0 || waits === 20) return open.map((path) => path.slice(folder.length + 1));
    await new Promise((done) => setTimeout(done, 5));
  }
}

/** By their paths; only Linux tells. */
function openFiles(): readonly string[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ""; // the one that the listing itself used
    }
  });
}

/** Longer than what is sealed at once, of bytes that do not compress. */
function bigSafetensors(): Uint8Array {
  const tensors = Array.from({ length: 3 }, (_, i) => {
    const cipher = createCipheriv("aes-128-ctr", Buffer.alloc(16, i), Buffer.alloc(16));
    return {
      name: `t${i}`,
      dtype: "U8",
      shape: [4 << 20],
      bytes: new Uint8Array(cipher.update(Buffer.alloc(4 << 20))),
    };
  });
  return buildSafetensors(tensors);
}

/** The fixture of a scenario: made once, copied for each run. */
type Files = ReadonlyMap<string, Uint8Array>;

async function prepare(folder: string, { args, before = [] }: Scenario): Promise<Files> {
  const vault = [
    ["vault", "create", "v.aerovault", "--no-encryption"],
    ["vault", "add", "v.aerovault", "m.gguf", ...PLAIN],
  ];
  const wide = new Map([["w.weight", new Float32Array(64).map((_, i) => i - 32)]]);
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  writeFileSync(join(folder, "old.gguf"), smallGguf());
  writeFileSync(join(folder, "m.safetensors"), smallSafetensors());
  const header = JSON.stringify({ "w.weight": { dtype: "F32", shape: [2, 32], data_offsets: [0, 256] } });
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(header.length));
  const data = Buffer.from((wide.get("w.weight") as Float32Array).buffer);
  writeFileSync(join(folder, "wide.safetensors"), Buffer.concat([head, Buffer.from(header), data]));
  if (args.includes("big.safetensors")) writeFileSync(join(folder, "big.safetensors"), bigSafetensors());
  writeFileSync(join(folder, "limits.json"), '{"gguf":{}}');
  writeFileSync(join(folder, "meta.json"), '{"a":"b"}');
  writeFileSync(join(folder, "password"), "correct horse\n");
  for (const one of [...vault, ...before]) {
    const { error } = await run(placed(one, folder));
    if (error !== undefined) throw error;
  }
  const files = new Map<string, Uint8Array>();
  for (const name of snapshot(folder).keys()) files.set(name, readFileSync(join(folder, name)));
  return files;
}

/** Arguments with the scenario's files where they lie; flags and verbs stay as they are. */
function placed(args: readonly string[], folder: string): string[] {
  const isFile = (text: string): boolean => /^(out|set|k|password)(\/|$)|\.(?!weight)[a-z]+(::|$)/.test(text);
  return args.map((text, i) => (isFile(text) && !inVault(args, i) ? join(folder, text) : text));
}

/** What stands behind the vault's name is a name in the vault, but for what add takes. */
function inVault(args: readonly string[], i: number): boolean {
  return (
    args[0] === "vault" && ["cat", "rm", "mv", "cp", "mkdir"].includes(args[1] ?? "") && i > 2 && args[i - 1] !== "-o"
  );
}

function fill(folder: string, files: Files): void {
  rmSync(folder, { recursive: true, force: true });
  for (const [name, bytes] of files) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), bytes);
  }
}

describe.each(SCENARIOS.map((scenario, i) => [scenario.args.join(" "), scenario, i] as const))(
  "tare %s",
  (_, scenario, i) => {
    const { edits } = scenario;
    it("names every error of the system, and loses nothing", { timeout: TIMEOUT_MS }, async ({ signal }) => {
      const folder = join(root, `scenario-${i}`);
      mkdirSync(folder);
      const files = await prepare(folder, scenario);
      const initial = snapshot(folder);
      /** What the edited file shows, whenever and wherever it was written. */
      const show = async (place: string): Promise<string> => {
        if (edits === undefined) return "";
        const shown = JSON.stringify(await run(placed(edits.show, place)));
        return shown
          .replaceAll(place, "")
          .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z|"(seconds|milliseconds)\\*":[\d.]+/g, "a time");
      };
      const shownBefore = await show(folder);
      await run(placed(scenario.args, folder)); // loads the code
      // A folder of its own for each run: no lock or half file of the one before is in its way.
      const begin = (name: string): { readonly place: string; readonly args: string[] } => {
        const place = join(root, `scenario-${i}-${name}`);
        fill(place, files);
        return { place, args: placed(scenario.args, place) };
      };
      const first = begin("sound");
      const { result: sound, calls } = await withFaults(first.place, undefined, () => run(first.args));
      expect(sound.error).toBeUndefined();
      expect(calls.open).toEqual([]);
      const final = snapshot(first.place);
      const shownAfter = await show(first.place);
      expect(calls.count).toBeGreaterThan(0);

      const problems: string[] = [];
      for (let at = 1; at <= calls.count; at++) {
        for (let e = 0; e < ERRORS_PER_CALL; e++) {
          // Two scenarios at once would have each other's faults: one that took too long ends, and so does not spoil the rest.
          signal.throwIfAborted();
          const errno = ERRORS[(at + i * 7 + e) % ERRORS.length] as string;
          const { place, args } = begin(`${at}-${errno}`);
          const { result, calls: made } = await withFaults(place, { at, errno }, () => run(args));
          if (made.failed === undefined) continue; // calls that run side by side may come in another number
          const found = await judge({ result, errno, failed: made.failed, folder: place, initial, final });
          found.push(...made.open.map((where) => `leaves open ${where.replaceAll(place, "")}`));
          if (edits !== undefined) {
            const shown = await show(place);
            const wanted = result.error === undefined ? [shownAfter] : [shownBefore, shownAfter];
            if (!wanted.includes(shown))
              found.push(`${edits.file} shows neither what it had nor what it should have: ${shown.slice(0, 200)}`);
          }
          problems.push(...found.map((text) => `${errno} at ${at}, ${made.failed?.replace(place, "")}: ${text}`));
          rmSync(place, { recursive: true, force: true });
        }
      }
      expect(problems).toEqual([]);
    });

    interface Judged {
      readonly result: Outcome;
      readonly errno: string;
      readonly failed: string;
      readonly folder: string;
      readonly initial: ReadonlyMap<string, string>;
      readonly final: ReadonlyMap<string, string>;
    }

    async function judge({ result, errno, failed, folder, initial, final }: Judged): Promise<string[]> {
      const problems: string[] = [];
      const { error } = result;
      const expected = exitCodeOf(systemError(errno, "", { source: "" }));
      if (error !== undefined && !["ENOENT", "ENAMETOOLONG"].includes(errno)) {
        const described = describeError(error);
        if (!isTareError(error)) problems.push(`nobody says what it was for: ${described.message}`);
        else if (error.at.source === "system") problems.push(`names no file: ${described.message}`);
        else {
          // After the commit point the change is in place whatever fails: the exit code is then always 8.
          const wanted = described.code === "source/vault.after-change" ? 8 : expected;
          if (result.code !== wanted)
            problems.push(`exit ${result.code}, not ${wanted}: ${described.message} [${described.code}]`);
        }
      }
      // A report may name the error among its findings. That nothing is there, or can be by that name, is an answer too.
      if (error === undefined && ![0, expected].includes(result.code)) problems.push(`ends with ${result.code}`);
      if (error !== undefined && describeError(error).code === "internal/bug") problems.push("called a bug");
      for (const name of await leftOpen(folder)) problems.push(`leaves ${name} open`);
      const found = snapshot(folder);
      for (const [name, digest] of initial) {
        if (name !== edits?.file && found.get(name) !== digest) problems.push(`${name} is not as it was`);
      }
      for (const [name, digest] of found) {
        if (initial.has(name)) continue;
        if (LITTER.test(name)) {
          // A lock that could not be read again is not removed, since it may be of another process by now.
          if (!/^(unlink|rm)|^open .*\.lock$/.test(failed) && !name.endsWith(".lock")) problems.push(`leaves ${name}`);
        } else if (!final.has(name)) problems.push(`leaves ${name}, which is no output`);
        else if (!/\.(aerovault|key|pub|sig)$/.test(name) && final.get(name) !== digest)
          problems.push(`${name} is not whole`);
      }
      if (error === undefined && result.code === 0) {
        for (const name of final.keys())
          if (!found.has(name) && !LITTER.test(name)) problems.push(`${name} is missing`);
      }
      return problems;
    }
  },
);

it("leaves no half of a key pair where the disk is full, and makes one when there is room again", async () => {
  const folder = join(root, "pair");
  const args = ["keygen", "-o", join(folder, "k")];
  let failures = 0;
  for (let at = 1, isOver = false; !isOver; at++) {
    mkdirSync(folder);
    const { result, calls } = await withFaults(folder, { at, errno: "ENOSPC" }, () => run(args));
    isOver = calls.failed === undefined;
    if (result.error !== undefined && /write/.test(calls.failed ?? "")) {
      failures++;
      expect(result.error).toMatchObject({ code: "source/no-space" });
      expect(readdirSync(folder)).toEqual([]);
      expect((await run(args)).error).toBeUndefined();
    }
    rmSync(folder, { recursive: true });
  }
  expect(failures).toBeGreaterThanOrEqual(2); // one for each file
});
