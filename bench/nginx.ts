import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";

export const NGINX_MISSING = "nginx is not installed: install the Debian package nginx-light for these rows";

/** A path that is served slowly, each reply at `bytesPerSecond`. */
export interface Throttle {
  /** The end of the path: "part-003.aero". */
  readonly suffix: string;
  readonly bytesPerSecond: number;
}

export interface NginxOptions {
  /** The folder to serve. */
  readonly folder: string;
  /** For the configuration and nginx's own files; created if missing. */
  readonly scratch: string;
  readonly throttle?: Throttle | undefined;
}

/** nginx on a free port of loopback, with its own configuration; ends with `stop`. */
export class Nginx {
  readonly origin: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, origin: string) {
    this.#child = child;
    this.origin = origin;
  }

  static async start(options: NginxOptions): Promise<Nginx> {
    const port = await freePort();
    await mkdir(options.scratch, { recursive: true });
    const file = join(options.scratch, "nginx.conf");
    await writeFile(file, configuration(options, port));
    const child = spawn("nginx", ["-c", file], { stdio: ["ignore", "ignore", "inherit"] });
    const origin = `http://127.0.0.1:${port}`;
    await untilAnswers(origin);
    return new Nginx(child, origin);
  }

  /** Waits until the port is free again. */
  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#child.once("exit", () => resolve());
      this.#child.kill("SIGTERM");
    });
  }
}

function configuration({ folder, scratch, throttle }: NginxOptions, port: number): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const paths = temporary.map((name) => `  ${name}_temp_path ${join(scratch, name)};`);
  const slow =
    throttle === undefined
      ? ""
      : `    location ~ ${throttle.suffix.replaceAll(".", "\\.")}$ { limit_rate ${throttle.bytesPerSecond}; }\n`;
  // As root, nginx would change to a user that cannot read the folder.
  const user = process.getuid?.() === 0 ? "user root;\n" : "";
  return `${user}daemon off;
worker_processes 1;
pid ${join(scratch, "nginx.pid")};
error_log ${join(scratch, "error.log")};
events { worker_connections 512; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
${paths.join("\n")}
  server {
    listen 127.0.0.1:${port};
    root ${folder};
${slow}  }
}
`;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Accepts any status: the server only has to listen. */
async function untilAnswers(origin: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await fetch(origin, { method: "HEAD" });
      return;
    } catch (error) {
      if (attempt === 100) throw new Error(`Cannot measure: nginx must answer at ${origin}`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
