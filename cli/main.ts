import { run } from "./dispatch.ts";
import { report } from "./errors.ts";
import { Interruption } from "./terminal/interruption.ts";
import { processTerminal } from "./terminal/terminal.ts";

async function main(argv: readonly string[]): Promise<void> {
  const talk = { env: process.env, terminal: processTerminal(process.env) };
  const tell = (): void => void report(interruption.signal.reason, argv, talk).catch(() => undefined);
  const interruption = new Interruption({ tell });
  const { signal, onExit } = interruption;
  // An error that nothing awaits ends the command like any other.
  process.once("uncaughtException", (error) => {
    void report(error, argv, talk).then(interruption.end.bind(interruption));
  });
  // Node exits with 0 if nothing is left to do, even while the command waits for something that can no longer happen.
  process.once("beforeExit", () => {
    const stuck = new Error("The command came to a standstill: it waits for something that never happens");
    void report(signal.aborted ? signal.reason : stuck, argv, talk).then(interruption.end.bind(interruption));
  });
  // Idle sockets and workers must not keep the process alive; all output has been written by now.
  await interruption.end(await run(argv, { ...talk, signal, onExit }));
}

void main(process.argv.slice(2));
