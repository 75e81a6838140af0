import { availableParallelism, cpus, totalmem } from "node:os";
import { FORMATS } from "../../../formats/registry.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { measureEngine } from "../../../primitives/measure.ts";
import { cacheFolder } from "../cache/folder.ts";
import { sharedEngine } from "../engine/engine.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { packageVersion } from "../own-script.ts";

/** What `tare doctor --json` prints. */
export interface DoctorResult {
  readonly version: string;
  readonly node: string;
  readonly platform: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /** The folder of the cache. */
  readonly cache: string;
  /** By variable, without user names and passwords. */
  readonly proxies: Readonly<Record<string, string>>;
  readonly engine: {
    readonly name: string;
    readonly primitives: readonly {
      readonly primitive: string;
      readonly implementation: string;
      readonly bytesPerSecond: number;
    }[];
  };
  readonly formats: readonly {
    readonly id: string;
    readonly name: string;
    readonly extensions: readonly string[];
    readonly read: true;
    readonly write: boolean;
  }[];
}

/** How long each primitive is measured: long enough for an error of a few percent. */
const MEASURE_MS = 60;

const PROXY_VARIABLES = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];

/** What this machine offers, and how fast. Measures every primitive for a moment on one thread; sends nothing. */
export async function doctor(): Promise<DoctorResult> {
  return examineMachine(await sharedEngine({}), process.env);
}

/** The same, for another engine and environment. */
export async function examineMachine(engine: Engine, env: Environment): Promise<DoctorResult> {
  const primitives = await measureEngine(engine, { milliseconds: MEASURE_MS });
  return {
    version: packageVersion(),
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    cache: cacheFolder(env),
    proxies: seenProxies(env),
    engine: {
      name: engine.name,
      primitives: primitives.map((row) => ({ ...row, bytesPerSecond: Math.round(row.bytesPerSecond) })),
    },
    formats: FORMATS.map(({ id, name, extensions, access }) => ({
      id,
      name,
      extensions,
      read: true,
      // Vaults have no writer of models, but commands of their own write them.
      write: access !== "read",
    })),
  };
}

/** The proxies that requests would use, without user names and passwords. */
function seenProxies(env: Environment): Record<string, string> {
  const seen: Record<string, string> = {};
  for (const name of PROXY_VARIABLES) {
    const value = env[name.toLowerCase()] || env[name];
    if (value) seen[name] = value.replace(/^([a-z][a-z0-9+.-]*:\/\/)?[^/@]*@/i, "$1…@");
  }
  return seen;
}
