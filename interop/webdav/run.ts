import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { requestRaw } from "../../test/support/raw-request.ts";
import { Outcome } from "../outcome.ts";

/**
 * Lists and copies a vault by WebDAV with rclone, and compares content and time with `rclone serve webdav` on a folder of
 * the same files. Run with: tsx interop/webdav/run.ts [--files N]
 */

const { values } = parseArgs({ options: { files: { type: "string", default: "5000" } } });
const TARE = fileURLToPath(new URL("../../dist/bin/tare.js", import.meta.url));
const RCLONE = ["rclone", "/usr/bin/rclone"].find((path) => spawnSync(path, ["version"]).status === 0);
const ROUNDS = 3;
/** Most times as long as rclone takes with its own server. */
const MOST = 2;
const USER = { name: "reader", password: "correct horse" };

function makeFiles(folder: string, count: number): void {
  for (let i = 0; i < count; i++) {
    const directory = join(folder, `folder ${i % 50}`, i % 3 === 0 ? "deep – 层" : ".");
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, `${i}.bin`), randomFillSync(new Uint8Array(1000 + ((i * 7919) % 20_000))));
  }
  writeFileSync(join(folder, "empty"), "");
  writeFileSync(join(folder, "100% & <odd> #1?.md"), "odd");
}

function call(program: string, args: readonly string[], env: Record<string, string> = {}): string {
  const run = spawnSync(program, args, { encoding: "utf8", env: { ...process.env, ...env }, maxBuffer: 1 << 26 });
  if (run.status !== 0) throw new Error(`${program} ${args.join(" ")}: ${run.status} ${run.stderr}`);
  return run.stdout;
}

/** Starts tare and waits for its address. */
async function serveVault(vault: string, args: readonly string[]): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [TARE, "serve", vault, "--port", "0", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout as NonNullable<typeof child.stdout>, "data")) as [Buffer];
  return { child, url: line.toString().trim() };
}

async function serveFolder(rclone: string, folder: string): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(rclone, ["serve", "webdav", folder, "--addr", "127.0.0.1:0", "--config", "/dev/null"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let text = "";
  child.stderr?.on("data", (piece: Buffer) => {
    text += piece.toString();
  });
  for (let i = 0; i < 200; i++) {
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
    const isUp = url !== undefined && (await requestRaw(url, { path: "/" }).catch(() => undefined)) !== undefined;
    if (isUp) return { child, url };
    await sleep(50);
  }
  throw new Error(`rclone serve webdav says no address: ${text}`);
}

/** Arguments for rclone to reach a server. */
const remote = (url: string): string[] => ["--webdav-url", url, "--config", "/dev/null", "-q"];

/** Seconds that rclone takes to copy everything. */
function copy(rclone: string, url: string, out: string): number {
  rmSync(out, { recursive: true, force: true });
  const start = performance.now();
  call(rclone, ["copy", ":webdav:", out, ...remote(url)]);
  return (performance.now() - start) / 1000;
}

function filesBelow(folder: string): string[] {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return found.map(({ parentPath, name }) => relative(folder, join(parentPath, name))).sort();
}

function differences(folder: string, copied: string): string[] {
  const [wanted, found] = [filesBelow(folder), filesBelow(copied)];
  const lost = wanted.filter((name) => !found.includes(name));
  const common = wanted.filter((name) => !lost.includes(name));
  const others = common.filter((name) => !readFileSync(join(folder, name)).equals(readFileSync(join(copied, name))));
  return [...lost.map((name) => `"${name}" is missing`), ...others.map((name) => `"${name}" has other bytes`)];
}

async function compare(rclone: string, at: (name: string) => string): Promise<Outcome> {
  const outcome = new Outcome("tare serve VAULT and rclone");
  makeFiles(at("files"), Number(values.files));
  writeFileSync(at("password"), "correct horse battery");
  writeFileSync(at("login"), `${USER.name}:${USER.password}`);
  const password = ["--password-file", at("password")];
  const env = { XDG_STATE_HOME: at("state") };
  call(process.execPath, [TARE, "vault", "create", at("v.aerovault"), ...password, "--profile", "fast"], env);
  call(process.execPath, [TARE, "vault", "add", at("v.aerovault"), `${at("files")}/.`, ...password], env);
  const ours = await serveVault(at("v.aerovault"), password);
  const theirs = await serveFolder(rclone, at("files"));
  const guarded = await serveVault(at("v.aerovault"), [...password, "--no-token", "--auth-file", at("login")]);
  try {
    const names = call(rclone, ["lsf", "-R", "--files-only", ":webdav:", ...remote(ours.url)])
      .trim()
      .split("\n");
    const wanted = filesBelow(at("files"));
    outcome.check("the list", names.sort().join("\n") === wanted.join("\n") ? [] : ["has other names"]);
    const times: { readonly ours: number; readonly theirs: number }[] = [];
    for (let i = 0; i < ROUNDS; i++)
      times.push({ ours: copy(rclone, ours.url, at("ours")), theirs: copy(rclone, theirs.url, at("theirs")) });
    outcome.check("the copy", differences(at("files"), at("ours")));
    const best = {
      ours: Math.min(...times.map((time) => time.ours)),
      theirs: Math.min(...times.map((time) => time.theirs)),
    };
    const text = `${wanted.length} files: ${best.ours.toFixed(2)} s, rclone's own server ${best.theirs.toFixed(2)} s`;
    outcome.note(text);
    outcome.check("the time", best.ours <= MOST * best.theirs ? [] : [text]);
    const secret = call(rclone, ["obscure", USER.password]).trim();
    const login = ["--webdav-user", USER.name, "--webdav-pass", secret, ...remote(guarded.url)];
    const top = call(rclone, ["lsf", ":webdav:", ...login])
      .trim()
      .split("\n");
    outcome.check("the list with a password", top.includes("empty") ? [] : [`is ${top.join(", ")}`]);
    const refused = spawnSync(rclone, ["lsf", ":webdav:", ...remote(guarded.url)]).status !== 0;
    outcome.check("without the password", refused ? [] : ["it is answered"]);
  } finally {
    for (const { child } of [ours, theirs, guarded]) child.kill("SIGINT");
  }
  return outcome;
}

if (RCLONE === undefined) console.log("Not compared with rclone: it is not installed (Debian: rclone).");
else if (!existsSync(TARE)) console.log("Skipped: the program is missing. Build it with: npm run build");
else {
  const folder = mkdtempSync(join(tmpdir(), "tare-webdav-"));
  try {
    const outcome = await compare(RCLONE, (name) => join(folder, name));
    outcome.print();
    process.exitCode = outcome.problems.length === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
