import { UsageError } from "../../base/errors.ts";
import { parseHttpUrl } from "../../bytes/http/url.ts";

/** The folder that a mirror stands for: itself, or where the file lies if the mirror names that file. */
export function mirrorFolder(mirror: string, url: string): string {
  const { label } = parseHttpUrl(mirror);
  const folder = new URL(mirror);
  const name = new URL(url.replace(/^s3:/i, "http:")).pathname.split("/").at(-1) ?? "";
  if (folder.pathname.endsWith(`/${name}`)) folder.pathname = folder.pathname.slice(0, -name.length);
  if (!folder.pathname.endsWith("/")) folder.pathname += "/";
  if (!folder.pathname.startsWith("/")) {
    throw new UsageError("usage/pull.mirror", `Cannot use "${label}" as a mirror: it names no folder`, {
      source: label,
    });
  }
  return folder.href;
}

/** A file of the set at the mirror; its query is kept. */
export function mirrorUrl(folder: string, path: string): string {
  const url = new URL(folder);
  url.pathname += path.split("/").map(encodeURIComponent).join("/");
  return url.href;
}
