import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "./store.ts";
import { ringCommands, SWIFT_PORTS, swiftFiles } from "./swift-config.ts";

const PACKAGES = "swift-proxy swift-account swift-container swift-object memcached";
const START_MS = 60_000;

/** Why Swift cannot run here; undefined if it can. */
export function swiftObstacle(): string | undefined {
  const programs = ["proxy", "account", "container", "object"].map((name) => `/usr/bin/swift-${name}-server`);
  if (!programs.every((path) => existsSync(path)) || spawnSync("memcached", ["-V"]).status !== 0) {
    return `OpenStack Swift is missing: on Debian, apt-get install ${PACKAGES}`;
  }
  const mayMount = process.getuid?.() === 0 && spawnSync("unshare", ["--mount", "true"]).status === 0;
  return mayMount ? undefined : "OpenStack Swift reads /etc/swift only: a folder can be put there by root alone";
}

/** OpenStack Swift with its S3 interface on loopback: one proxy, one server of each kind, one folder as the disk. */
export class Swift implements Store {
  readonly kind = "OpenStack Swift with s3api, one device";
  readonly nodeCount = 1;
  readonly conditions: Store["conditions"];
  readonly #folder: string;
  readonly #processes: ChildProcess[] = [];

  private constructor(folder: string, conditions: Store["conditions"]) {
    this.#folder = folder;
    this.conditions = conditions;
  }

  static async start(): Promise<Swift> {
    const folder = mkdtempSync(join(tmpdir(), "tare-swift-"));
    const swift = new Swift(folder, knowsConditions() ? "known" : "unknown");
    try {
      swift.#configure();
      swift.#run("memcached", ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", String(SWIFT_PORTS.memcached)]);
      for (const name of ["account", "container", "object", "proxy"]) {
        swift.#run(name, [`swift-${name}-server`, `/etc/swift/${name}-server.conf`]);
      }
      await swift.#ready();
      return swift;
    } catch (error) {
      await swift.stop();
      throw error;
    }
  }

  endpoint(): string {
    return `http://127.0.0.1:${SWIFT_PORTS.proxy}`;
  }

  /** Not possible: there is only one node. */
  kill(): void {
    throw new Error("this store has one node");
  }

  async stop(): Promise<void> {
    for (const { pid } of this.#processes) {
      try {
        // Each is the leader of a group: the servers fork their workers.
        if (pid !== undefined) process.kill(-pid, "SIGKILL");
      } catch {
        // It has already ended.
      }
    }
    await sleep(500);
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }

  #configure(): void {
    const etc = join(this.#folder, "etc");
    mkdirSync(join(this.#folder, "devices", "d0"), { recursive: true });
    mkdirSync(etc);
    for (const [name, text] of Object.entries(swiftFiles(this.#folder))) writeFileSync(join(etc, name), text);
    for (const args of ringCommands()) execFileSync("swift-ring-builder", args, { cwd: etc, stdio: "ignore" });
  }

  /** Runs it in a separate mount namespace, in which our files are /etc/swift. */
  #run(name: string, command: readonly string[]): void {
    const log = openSync(this.#log(name), "a");
    const script = `mount --bind ${join(this.#folder, "etc")} /etc/swift && exec ${command.join(" ")}`;
    const args = ["--mount", "--propagation", "private", "sh", "-c", script];
    this.#processes.push(spawn("unshare", args, { stdio: ["ignore", log, log], detached: true }));
  }

  async #ready(): Promise<void> {
    for (const end = Date.now() + START_MS; Date.now() < end; await sleep(200)) {
      const reply = await fetch(`${this.endpoint()}/auth/v1.0`, {
        headers: { "x-auth-user": "test:tester", "x-auth-key": "testing" },
      }).catch(() => undefined);
      if (reply?.status === 200) return;
    }
    throw new Error(`Swift did not start: ${readFileSync(this.#log("proxy"), "utf8").slice(-800)}`);
  }

  #log(name: string): string {
    return join(this.#folder, `${name}.log`);
  }
}

/** s3api 2.30 answers If-None-Match on PUT with 501, 2.38 supports it; releases in between were not tried. */
function knowsConditions(): boolean {
  const { stdout } = spawnSync("dpkg-query", ["-W", "-f", "$" + "{Version}", "swift-proxy"], { encoding: "utf8" });
  const [, major = "0", minor = "0"] = /^(?:\d+:)?(\d+)\.(\d+)/.exec(stdout) ?? [];
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 38);
}
