import { homedir } from "node:os";
import { join } from "node:path";

/** Where the cache is: $TARE_CACHE, else tare below the user's cache directory. */
export function cacheFolder(env: Readonly<Record<string, string | undefined>>): string {
  return env["TARE_CACHE"] ? env["TARE_CACHE"] : userFolder(env);
}

function userFolder(env: Readonly<Record<string, string | undefined>>): string {
  if (env["XDG_CACHE_HOME"]) return join(env["XDG_CACHE_HOME"], "tare");
  if (process.platform === "win32" && env["LOCALAPPDATA"]) return join(env["LOCALAPPDATA"], "tare");
  return join(homedir(), ".cache", "tare");
}
