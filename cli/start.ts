/** The file that is started. Bundled code imports from main, never from here: it would run a second time. */
import("./main.ts").catch((error: unknown) => {
  // With too few files allowed, for one, not even our own code can be read, and with it what errors are called.
  if (!(error instanceof Error && "code" in error && /^E[A-Z0-9]+$/.test(String(error.code)))) throw error;
  process.stderr.write(`tare: Cannot start: ${error.message} [source/io]\n`);
  process.exit(8);
});
