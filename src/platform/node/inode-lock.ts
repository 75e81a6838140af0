import { createServer } from "node:net";
import { errnoOf } from "./errors.ts";

/** The right to write into a file in its place, whatever names it has; the system takes it back when the process ends. */
export interface InodeLock {
  release(): Promise<void>;
}

/**
 * A lock beside a vault belongs to one name of it; writing in place concerns the file, which can have others. Linux offers
 * names that are not files: a socket that the file's numbers name. "taken" where another writer has it; "unknown" where
 * there is no such thing.
 */
export async function lockInode({ dev, ino }: InodeName): Promise<InodeLock | "taken" | "unknown"> {
  if (process.platform !== "linux") return "unknown";
  // As long as such a name can be: versions of Node differ in whether they fill up a shorter one.
  const name = `\0${`tare-vault-${dev}-${ino}`.padEnd(MAX_SOCKET_NAME, ".")}`;
  const server = createServer((socket) => socket.destroy());
  return new Promise((settle) => {
    server.once("error", (error) => settle(errnoOf(error) === "EADDRINUSE" ? "taken" : "unknown"));
    server.listen(name, () => {
      server.unref();
      settle({ release: () => new Promise<void>((done) => server.close(() => done())) });
    });
  });
}

export interface InodeName {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Characters of `sun_path` behind the first one. */
const MAX_SOCKET_NAME = 107;
