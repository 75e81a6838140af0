import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serveDirectory } from "../../src/platform/node/serve/serve-directory.ts";
import {
  FILE_BYTES,
  MODIFIED_SECONDS,
  RANGE_REQUESTS,
  type RangeRequest,
} from "../../test/contracts/range-requests.ts";
import { type RawReply, requestRaw } from "../../test/support/raw-request.ts";
import { Outcome } from "../outcome.ts";

/** Sends the same requests to nginx and `tare serve` and compares the answers. Run with: tsx interop/http/run.ts */

const NGINX = ["nginx", "/usr/sbin/nginx"].find((path) => spawnSync(path, ["-v"]).status === 0);
/** Headers that must be the same, besides the status and the body. */
const COMPARED = ["content-length", "content-range", "accept-ranges", "last-modified", "location"];

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "tare-http-"));
  const files = join(folder, "files");
  mkdirSync(join(files, "folder"), { recursive: true });
  const contents = { "data.bin": Uint8Array.from({ length: FILE_BYTES }, (_, i) => (i * 7) % 251), "empty.bin": "" };
  for (const [name, content] of Object.entries(contents)) {
    writeFileSync(join(files, name), content);
    utimesSync(join(files, name), MODIFIED_SECONDS, MODIFIED_SECONDS);
  }
  return folder;
}

async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

async function startNginx(program: string, folder: string): Promise<{ url: string; child: ChildProcess }> {
  const port = await findFreePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/t;`,
  );
  const config = `daemon off; pid ${folder}/pid; error_log ${folder}/errors; events {}
    http { access_log off; absolute_redirect off; types {} default_type application/octet-stream; ${temporary.join(" ")}
    server { listen 127.0.0.1:${port}; root ${folder}/files; } }`;
  writeFileSync(join(folder, "nginx.conf"), config);
  // As root, nginx reads files as another user.
  if (process.getuid?.() === 0) spawnSync("chmod", ["-R", "a+rX", folder]);
  const child = spawn(program, ["-e", join(folder, "errors"), "-c", join(folder, "nginx.conf")], { stdio: "inherit" });
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; i < 100; i++) {
    const isUp = await requestRaw(url, { path: "/data.bin" }).then(
      () => true,
      () => false,
    );
    if (isUp) break;
    await sleep(50);
  }
  return { url, child };
}

async function ask(url: string, row: RangeRequest): Promise<RawReply> {
  const { headers: known } = await requestRaw(url, { method: "HEAD", path: "/data.bin" });
  const headers = Object.entries(row.headers).map(([name, value]) => [
    name,
    value.replace("ETAG", known["etag"] as string),
  ]);
  const { method = "GET", path = "/data.bin" } = row;
  return requestRaw(url, { method, path, headers: Object.fromEntries(headers) });
}

function differencesOf(ours: RawReply, theirs: RawReply): string[] {
  if (ours.status !== theirs.status) return [`status ${ours.status} here, ${theirs.status} there`];
  const isFile = ours.status === 200 || ours.status === 206;
  const names = COMPARED.filter((name) => isFile || name !== "content-length");
  const differences = names.flatMap((name) => {
    const [a, b] = [ours.headers[name], theirs.headers[name]];
    // We say more in replies without a file, and Accept-Ranges in 206 too; what nginx says must be the same.
    const mayBeMissing = !isFile || (name === "accept-ranges" && ours.status === 206);
    return a === b || (mayBeMissing && b === undefined) ? [] : [`${name} ${a} here, ${b} there`];
  });
  if (isFile && !ours.body.equals(theirs.body)) differences.push("another body");
  return differences;
}

async function compare(program: string, folder: string): Promise<Outcome> {
  const outcome = new Outcome("tare serve and nginx");
  const ours = await serveDirectory(join(folder, "files"), { port: 0 });
  const theirs = await startNginx(program, folder);
  try {
    for (const row of RANGE_REQUESTS) {
      const differences = differencesOf(await ask(ours.url, row), await ask(theirs.url, row));
      const isChoice = row.choice !== undefined && differences.length > 0;
      if (isChoice) outcome.note(`${row.title}: ${differences.join("; ")} (${row.choice})`);
      outcome.check(row.title, isChoice ? [] : differences);
    }
  } finally {
    theirs.child.kill();
    await ours.close();
  }
  return outcome;
}

if (NGINX === undefined) console.log("Not compared with nginx: it is not installed (Debian: nginx-light).");
else {
  const folder = makeFolder();
  try {
    const outcome = await compare(NGINX, folder);
    outcome.print();
    process.exitCode = outcome.problems.length === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
