import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "./store.ts";

/** The key of the store that the rounds run against. */
export const KEY = { id: "tareinterop", secret: "tare-interop-secret" };

const CACHE = join(homedir(), ".cache", "tare-interop");
const BINARY = join(CACHE, "bin", "minio");
const NODES = 4;
const FIRST_PORT = 9201;
const START_MS = 60_000;

/** The server, built from the Go module proxy if possible; else undefined. */
export function findMinio(): string | undefined {
  if (existsSync(BINARY)) return BINARY;
  if (spawnSync("go", ["version"]).status !== 0) return undefined;
  console.log("building MinIO from the Go module proxy; this takes some minutes");
  mkdirSync(dirname(BINARY), { recursive: true });
  const built = spawnSync("nice", ["-n", "19", "go", "install", "github.com/minio/minio@latest"], {
    stdio: "inherit",
    cwd: CACHE,
    env: { ...process.env, GOBIN: dirname(BINARY), GOFLAGS: "-buildvcs=false" },
  });
  return built.status === 0 && existsSync(BINARY) ? BINARY : undefined;
}

/** A store on loopback. */
export class Cluster implements Store {
  /** Its name and its layout. */
  readonly kind: string;
  readonly conditions = "known";
  readonly #folder: string;
  readonly #commands: readonly (readonly string[])[];
  readonly #processes: (ChildProcess | undefined)[] = [];

  private constructor(kind: string, folder: string, commands: readonly (readonly string[])[]) {
    this.kind = kind;
    this.#folder = folder;
    this.#commands = commands;
  }

  /** Four erasure-coded nodes. If /.dockerenv makes them refuse loopback peers, they run in a chroot without it. */
  static async start(binary: string): Promise<Cluster> {
    const folder = mkdtempSync(join(tmpdir(), "tare-minio-"));
    const [kind, commands] = planCommands(binary, folder);
    const cluster = new Cluster(kind, folder, commands);
    try {
      for (const i of commands.keys()) cluster.startNode(i);
      await cluster.ready();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  get nodeCount(): number {
    return this.#commands.length;
  }

  endpoint(node = 0): string {
    return `http://127.0.0.1:${FIRST_PORT + node}`;
  }

  startNode(node: number): void {
    const [program = "", ...args] = this.#commands[node] ?? [];
    const log = openSync(join(this.#folder, `node-${node}.log`), "a");
    this.#processes[node] = spawn(program, args, {
      stdio: ["ignore", log, log],
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: "/tmp",
        MINIO_ROOT_USER: KEY.id,
        MINIO_ROOT_PASSWORD: KEY.secret,
        MINIO_BROWSER: "off",
        // Lets drives share a disk with the system, as a test does.
        MINIO_CI_CD: "on",
      },
    });
  }

  /** Ends one node with SIGKILL. */
  kill(node: number): void {
    this.#processes[node]?.kill("SIGKILL");
  }

  /** Resolves when the store accepts writes. */
  async ready(): Promise<void> {
    for (const end = Date.now() + START_MS; Date.now() < end; await sleep(200)) {
      const reply = await fetch(`${this.endpoint()}/minio/health/cluster`).catch(() => undefined);
      if (reply?.status === 200) return;
    }
    throw new Error(`MinIO did not start: ${readFileSync(join(this.#folder, "node-0.log"), "utf8").slice(-500)}`);
  }

  async stop(): Promise<void> {
    for (const node of this.#processes) node?.kill("SIGKILL");
    // The mounts of a chroot end with its processes.
    await sleep(500);
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

function planCommands(binary: string, folder: string): [kind: string, commands: string[][]] {
  const nodes = Array.from({ length: NODES }, (_, i) => i);
  const drives = nodes.map((i) => join(folder, `drive-${i}`));
  for (const drive of drives) mkdirSync(drive);
  const address = (i: number): string => `127.0.0.1:${FIRST_PORT + i}`;
  if (!existsSync("/.dockerenv")) {
    const peers = nodes.map((i) => `http://${address(i)}${drives[i]}`);
    return ["MinIO, four nodes", nodes.map((i) => [binary, "server", "--quiet", "--address", address(i), ...peers])];
  }
  if (process.getuid?.() !== 0 || spawnSync("unshare", ["--mount", "true"]).status !== 0) {
    return ["MinIO, one process with four drives", [[binary, "server", "--quiet", "--address", address(0), ...drives]]];
  }
  const root = makeRoot(binary, folder);
  const peers = nodes.map((i) => `http://${address(i)}/drive-${i}`);
  const commands = nodes.map((i) => {
    const server = ["/minio", "server", "--quiet", "--address", address(i), ...peers].join(" ");
    const script = `mount -t proc proc ${root}/proc && mount --bind /dev ${root}/dev && exec chroot ${root} ${server}`;
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script];
  });
  return ["MinIO, four nodes in a chroot", commands];
}

/** A root folder with the server and its libraries, and nothing else. */
function makeRoot(binary: string, folder: string): string {
  const root = join(folder, "root");
  for (const name of ["proc", "dev", "tmp", "etc", ...Array.from({ length: NODES }, (_, i) => `drive-${i}`)]) {
    mkdirSync(join(root, name), { recursive: true });
  }
  writeFileSync(join(root, "etc", "hosts"), "127.0.0.1 localhost\n");
  const libraries = spawnSync("ldd", [binary], { encoding: "utf8" }).stdout.match(/\/\S+(?= \()/g) ?? [];
  for (const library of libraries) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    copyFileSync(library, join(root, library));
  }
  execFileSync("cp", [binary, join(root, "minio")]);
  return root;
}
